package planner

import (
	"cmp"
	"fmt"
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// stepElect finds the init node: the machine that starts the cluster and that all others join. Drover chooses it from
// the etcd machines whose host exists, by name. After it has its plan, only a working member of the same etcd can take
// its place, because a machine that never joined would start a second cluster. That happens when the init node is
// deleted, failed or without a host. It also happens when its node is lost for long and the other members are a
// majority without it.
func stepElect(p *pass) verdict {
	if i := slices.IndexFunc(p.unregistered, func(m *machine) bool { return m.marks.InitNode && m.gotPlan() }); i >= 0 {
		return stopFor(waitFor(ReasonInitNodeLost, "waiting for the plan secret of init node "+p.unregistered[i].Name,
			WakePlanSecret, WakeMachine))
	}
	e := &election{p}
	marked := e.validMarked()
	if id := e.designated(); id != "" && !slices.ContainsFunc(marked, e.mayBeStarting) && !e.haveOthersStarted(id) {
		for _, m := range marked {
			m.marks.InitNode = false
		}
		return e.electDesignated(id)
	}
	return e.electFrom(marked)
}

// election chooses the init node.
type election struct{ *pass }

// electFrom finds the init node when the user has not designated one, or the cluster has started. A marked machine
// stays the init node while it can be one.
func (e *election) electFrom(marked []*machine) verdict {
	switch {
	case len(marked) == 1 && marked[0].canBeInit():
		return e.keepInit(marked[0])
	case len(marked) > 1:
		return e.electAmong(marked)
	case len(marked) == 1 && !marked[0].gotPlan():
		marked[0].marks.InitNode = false
		return e.elect()
	case len(marked) == 1:
		return e.replaceInit(marked)
	}
	return e.elect()
}

// validMarked are the machines with the mark. In a started cluster, a machine that never got a plan loses the mark,
// no matter what set it: it would start another cluster.
func (e *election) validMarked() []*machine {
	marked := e.marked()
	if len(e.started()) == 0 {
		return marked
	}
	return slices.DeleteFunc(marked, func(m *machine) bool {
		m.marks.InitNode = m.gotPlan()
		return !m.gotPlan()
	})
}

// keepInit keeps an init node, unless its node is lost and the others can do without it.
func (e *election) keepInit(m *machine) verdict {
	e.init = m
	e.warnDesignated(m)
	if m.NodeLostSince.IsZero() || !m.gotPlan() || e.designated() != "" {
		return goOn("the init node is " + m.Name)
	}
	if e.unwell == "" {
		e.unwell = "the node of init machine " + m.Name + " is unreachable since " + stamp(m.NodeLostSince)
	}
	next := e.nextInit()
	if next == nil || !e.etcd.majorityWithout(m) || !e.hasMissed(m, m.NodeLostSince) {
		return goOn("the init node is " + m.Name + ", whose node is lost")
	}
	m.marks.InitNode = false
	return e.choose(next)
}

// majorityWithout reports that a majority of the etcd members is proven to work without this machine.
func (e *etcd) majorityWithout(m *machine) bool {
	members := e.collect(isEtcd, isLive, e.mayBeMember, func(o *machine) bool { return o != m })
	healthy := 0
	for _, o := range members {
		healthy += btoi(o.etcdStaysUp())
	}
	return healthy > (len(members)+1)/2
}

// replaceInit replaces an init node that cannot be used any more, or waits. While no other machine can take its place,
// a working machine that is being deleted stays. Its replacements still join it.
func (e *election) replaceInit(gone []*machine) verdict {
	next := e.nextInit()
	if next == nil {
		next = e.etcd.keepMember(gone)
	}
	if next == nil || !e.isAllowed(next) {
		return stopFor(e.lost(gone, next != nil))
	}
	for _, m := range gone {
		m.marks.InitNode = false
	}
	return e.choose(next)
}

// nextInit is the first server that is proven to be a member of the cluster's etcd and can be joined, nil when there is
// none. A candidate that the user has designated wins. A machine without pending changes comes before a machine that
// waits, because others can join only the init node.
func (e *election) nextInit() *machine {
	candidates := e.collect((*machine).canBeInit, (*machine).canTakeOver, notInit)
	if len(candidates) == 0 {
		return nil
	}
	isHealthy := func(m *machine) int { return btoi(m.memberState() == MemberHealthy) }
	slices.SortStableFunc(candidates, func(a, b *machine) int {
		return cmp.Or(cmp.Compare(isHealthy(b), isHealthy(a)), cmp.Compare(btoi(a.PoolPaused), btoi(b.PoolPaused)))
	})
	return candidates[max(0, slices.IndexFunc(candidates, e.isAllowed))]
}

// designated is the machine ID of the init node that the user has chosen, empty when there is none. With a choice, no
// other machine becomes init node. Drover ignores the choice while that machine has started and is being deleted: it
// waits for the machines that are joined to it, and they need another server to join.
func (e *election) designated() string {
	id := e.s.ControlPlane.Labels[rkev1.InitNodeMachineIDLabel]
	isLeaving := func(m *machine) bool { return m.Deleting && m.Labels[rkev1.MachineIDLabel] == id }
	if slices.ContainsFunc(e.started(), isLeaving) {
		return ""
	}
	return id
}

// isAllowed reports that the user has not chosen another init node.
func (e *election) isAllowed(m *machine) bool {
	id := e.designated()
	return id == "" || m.Labels[rkev1.MachineIDLabel] == id
}

// mayBeStarting reports that a machine may be starting the cluster already. It got a plan, or a ticket announces a plan
// that caches may not show yet.
func (e *election) mayBeStarting(m *machine) bool {
	return m.gotPlan() || m.canBeInit() && e.hasInitTicket(m)
}

// hasInitTicket reports that the stored ticket lets the machine start the cluster.
func (e *election) hasInitTicket(m *machine) bool {
	ticket := e.s.ControlPlane.Status.Ticket
	return ticket != nil && ticket.Step == ticketInit &&
		slices.ContainsFunc(ticket.Machines, func(t rkev1.TicketMachine) bool { return t.MachineUID == m.UID })
}

// marked are the machines with the init mark. When there are none, it is the machine of a ticket whose mark was not
// written.
func (e *election) marked() []*machine {
	marked := e.collect(func(m *machine) bool { return m.marks.InitNode })
	if len(marked) > 0 {
		return marked
	}
	named := e.collect((*machine).canBeInit, e.hasInitTicket)
	for _, m := range named {
		m.marks.InitNode = true
	}
	return named
}

// electAmong resolves several marks, which only a user can have set. The machine that others can join stays, or else
// the first one with a plan.
func (e *election) electAmong(marked []*machine) verdict {
	keep := slices.IndexFunc(marked, func(m *machine) bool { return m.marks.JoinURL != "" })
	if keep < 0 {
		keep = max(0, slices.IndexFunc(marked, (*machine).gotPlan))
	}
	for i, m := range marked {
		m.marks.InitNode = i == keep
	}
	if !marked[keep].canBeInit() {
		return e.replaceInit(marked[keep : keep+1])
	}
	e.init = marked[keep]
	return goOn("of several init nodes stays " + e.init.Name)
}

// reasonInitNodeStays is the reason of a warning: the user's choice of the init node comes too late.
const reasonInitNodeStays = "InitNodeStays"

// warnDesignated warns that the init node is not the machine that the user has chosen.
func (e *election) warnDesignated(m *machine) {
	id := e.s.ControlPlane.Labels[rkev1.InitNodeMachineIDLabel]
	if id == "" || m.Labels[rkev1.MachineIDLabel] == id {
		return
	}
	message := "The cluster was started by machine " + m.Name +
		", which stays the init node; while the label names another machine, no third one takes its place"
	if e.designated() == "" {
		message = "The machine that the label names is being deleted, and machine " + m.Name +
			" is the init node: remove the label, or name another machine in it"
	}
	field := "metadata.labels[" + rkev1.InitNodeMachineIDLabel + "]"
	e.warnings[render.Warning{Reason: reasonInitNodeStays, Field: field, Message: message}] = true
}

// electDesignated takes only the machine that the user has chosen by its ID.
func (e *election) electDesignated(id string) verdict {
	chosen := e.collect(func(m *machine) bool { return m.Labels[rkev1.MachineIDLabel] == id })
	switch {
	case len(chosen) > 1:
		return stopFor(failure(ReasonDesignatedAbsent,
			fmt.Sprintf("several machines have the machine ID %s that is designated as init node", id), WakeMachine))
	case len(chosen) == 0 || !chosen[0].canBeInit():
		return stopFor(waitFor(ReasonDesignatedAbsent, "unable to find designated init node matching machine ID "+id+
			": register it, or remove the label "+
			rkev1.InitNodeMachineIDLabel+" of the Cluster", WakeMachine, WakePlanSecret))
	}
	return e.choose(chosen[0])
}

// haveOthersStarted reports that another machine than the one with this machine ID may have started the cluster. This
// is also true when a restore has stopped this machine, because its data are gone. The new init node must then be a
// member.
func (e *election) haveOthersStarted(id string) bool {
	isOther := func(m *machine) bool { return m.stopped() || m.Labels[rkev1.MachineIDLabel] != id }
	return slices.ContainsFunc(e.started(), isOther)
}

// started are the machines that may have started the cluster.
func (c *cluster) started() []*machine {
	return slices.DeleteFunc(c.all(), func(m *machine) bool { return !m.roles.ETCD || !m.gotPlan() })
}

// canTakeOver reports that a machine is proven to be a member of the cluster's etcd that others can join. A machine
// that refused its plan, or is drained for the next one, counts: only a new init node lets it go on.
func (m *machine) canTakeOver() bool { return m.etcdStaysUp() && m.marks.JoinURL != "" }

// elect takes the first machine that can start the cluster, unless another machine may have started it.
func (e *election) elect() verdict {
	if started := e.started(); len(started) > 0 {
		return e.replaceInit(started)
	}
	candidates := e.collect((*machine).canBeInit)
	if len(candidates) == 0 {
		return stopFor(waitFor(ReasonNoInitNode, "waiting for viable init node", WakeMachine, WakePlanSecret))
	}
	return e.choose(candidates[0])
}

func (e *election) choose(m *machine) verdict {
	m.marks.InitNode = true
	e.init = m
	e.warnDesignated(m)
	if m.Deleting {
		return goOn("the init node is " + m.Name +
			", which is being deleted and stays until another one can take its place")
	}
	return goOn("chose the init node " + m.Name)
}
