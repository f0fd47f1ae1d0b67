package planner

import "time"

const (
	// stepNodes is the last step of a rotation. It is stored.
	stepNodes = "nodes"
	// nodesDeadline is how long a rotation waits for its nodes. Its work is then done, although a node is not ready.
	nodesDeadline = 10 * time.Minute
	// nodesSettle is the time in which Cluster API looks at a node again after a pause. Until then it may show the node
	// as it was before.
	nodesSettle = 10 * time.Second

	msgNodesSeen  = "Cluster API has not seen the node yet"
	msgNotAwaited = "the request was removed before all nodes were ready"
)

// restartsIn reports that a rotation of this kind runs, and has not restarted all of its machines yet.
func (k *kind) restartsIn(s *status) bool { return k.runsIn(s) && k.recordIn(s).Step != stepNodes }

// awaitNodes is the step after the last restart of a rotation: it waits until the nodes of the machines are ready. The
// pause of the CAPI cluster ends with the beginning of this step, because Cluster API reports no nodes of a paused
// cluster. For the same reason, a rotation does not wait for machines that the user has paused, nor in a
// cluster that the user has paused. After the deadline it does not wait either, and returns a message about the nodes.
func (o *operation) awaitNodes(machines []*machine) (v verdict, message string) {
	if o.s.Cluster.Paused && o.s.Cluster.PausedBy == "" {
		return verdict{}, ""
	}
	isFirst := o.record().Step != stepNodes
	left := o.leftOf(stepNodes, nodesDeadline)
	if isFirst {
		return o.next("all machines have restarted"), ""
	}
	var unready []note
	again := left
	for _, m := range only(machines, func(m *machine) bool { return m.HasNode && !m.PausedByUser }) {
		settles := m.ResumedAt.Add(nodesSettle).Sub(o.s.Now)
		switch {
		case m.Paused:
			unready = append(unready, note{m.Name, msgNodesSeen})
		case m.NodeProblem != "":
			unready = append(unready, note{m.Name, m.NodeProblem})
		case settles > 0:
			unready = append(unready, note{m.Name, msgNodesSeen})
			again = min(again, settles)
		}
	}
	switch {
	case len(unready) == 0:
		return verdict{}, ""
	case left <= 0:
		return verdict{}, about("nodes are not ready:", unready)
	}
	wait := waitFor(ReasonOperation, o.Title+": "+about("waiting for nodes to be ready:", unready), WakeMachine,
		WakeCluster, WakeControlPlane)
	wait.After = min(again, nodesDeadline)
	return stopFor(wait), ""
}
