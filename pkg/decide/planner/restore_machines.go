package planner

import (
	"errors"
	"fmt"
	"slices"

	"github.com/Masterminds/semver/v3"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// snapshotAsked is the object that the restore names, nil when the name is that of a file on the machine.
func (o *operation) snapshotAsked() *ETCDSnapshot {
	for i, snapshot := range o.s.Snapshots {
		if snapshot.Name == o.status.ETCDSnapshotRestore.Name {
			return &o.s.Snapshots[i]
		}
	}
	return nil
}

// source is the snapshot to restore from, or why it cannot be restored.
func (o *operation) source() (source render.Source, problem string) {
	found := o.snapshotAsked()
	if found == nil {
		return render.Source{File: o.status.ETCDSnapshotRestore.Name}, ""
	}
	switch {
	case found.Cluster != "" && found.Cluster != o.s.ControlPlane.Spec.ClusterName:
		return source, fmt.Sprintf("snapshot %s is of cluster %s", found.Name, found.Cluster)
	case found.Failed:
		return source, fmt.Sprintf("snapshot %s was not taken: %s", found.Name, found.Message)
	case found.File == "":
		return source, fmt.Sprintf("snapshot %s names no file", found.Name)
	case !restorable(found.KubernetesVersion, o.s.ControlPlane.Spec.KubernetesVersion):
		return source, fmt.Sprintf("snapshot %s of version %s cannot be restored to version %s", found.Name, found.KubernetesVersion, o.s.ControlPlane.Spec.KubernetesVersion)
	}
	return render.Source{File: found.File, Folder: found.Folder, S3: found.S3}, ""
}

// restorable is false for the one version border that data cannot cross (docs/wire/planner.md#restore). Drover tries
// versions that it cannot parse.
func restorable(taken, current string) bool {
	border := semver.MustParse("1.25.0")
	from, err := semver.NewVersion(taken)
	if err != nil {
		return true
	}
	to, err := semver.NewVersion(current)
	return err != nil || to.LessThan(border) || !from.LessThan(border)
}

// restoreOn is the machine on which etcd starts again, or why there is none. It is the machine that holds the snapshot.
// For a snapshot in S3 it is the init node, or the first machine that can be one. For a bare file name it is the only
// candidate.
func (o *operation) restoreOn() (m *machine, problem string) {
	candidates := o.collect((*machine).canBeInit)
	found := o.snapshotAsked()
	switch {
	case found == nil && len(candidates) != 1:
		return nil, fmt.Sprintf("snapshot %s is not known; to restore from a file of that name there must be exactly one machine with etcd",
			o.status.ETCDSnapshotRestore.Name)
	case found != nil && found.S3 == nil:
		i := slices.IndexFunc(candidates, func(m *machine) bool { return m.UID == found.MachineUID })
		if i < 0 {
			return nil, fmt.Sprintf("the machine that holds snapshot %s cannot start etcd or is gone", found.Name)
		}
		return candidates[i], ""
	case len(candidates) == 0:
		return nil, "waiting for viable init node"
	}
	if i := slices.IndexFunc(candidates, func(m *machine) bool { return m.Marks.InitNode }); i >= 0 {
		return candidates[i], ""
	}
	return candidates[0], ""
}

// designate makes a machine the init node. All other marks are removed first.
func (o *operation) designate(m *machine) *verdict {
	var others []note
	for _, other := range slices.Concat(o.machines, o.unregistered) {
		if other != m && other.marks.InitNode {
			other.marks.InitNode = false
			others = append(others, note{name: other.Name})
		}
	}
	if len(others) > 0 {
		v := o.await("Restore: marks", stepDeadline, about("another machine becomes the init node instead of", others), WakeMachine, WakePlanSecret)
		return &v
	}
	m.marks.InitNode = true
	return nil
}

// rendered is a plan, or why there is none.
type rendered struct {
	report
	plan plan.NodePlan
}

// tryRender renders the plan of the machine on which etcd starts again.
func (o *operation) tryRender(m *machine, source render.Source) rendered {
	in := o.inputFor(m, "")
	in.InitNode = true
	if !o.s.Versions.Knows(in.Version) {
		in.Version = o.s.Versions.Newest() // a restore starts everything again, in any version
	}
	restore, err := o.s.Versions.RestorePlan(in, source, o.attempt())
	var pending *render.PendingError
	switch {
	case errors.As(err, &pending):
		return rendered{report: report{missing: pending.Message}}
	case err != nil:
		return rendered{report: report{failed: err.Error()}}
	}
	return rendered{plan: restore}
}

// stopMachines stops all machines except some, and waits until no server runs. Workers get the plan to stop too, but
// the restore does not wait for them: a worker that does not answer must not block the data. Deleting machines with
// etcd may still have a member. Drover releases them and waits until they are gone.
func (o *operation) stopMachines(phase string, except ...*machine) *verdict {
	for _, m := range o.collect(isEtcd, isDeleting, func(m *machine) bool { return !m.ForceRemove }) {
		o.last = append(o.last, ForceRemoveMachine{Machine: m.Name})
	}
	var tasks []task
	for _, m := range o.collect(isLive, stops) {
		if slices.Contains(except, m) && render.OperationOf(m.Plan.State.Plan) == render.OperationRestore {
			continue // its restore has begun already
		}
		tasks = append(tasks, task{m: m, plan: o.work(m, o.node(m).StopWork(m.roles, o.attempt())), attempts: restartAttempts, disrupts: true})
	}
	worker := func(m *machine) bool { return !m.roles.Server() }
	says := says{fmt.Sprintf("waiting to stop %s services on", o.runtime), fmt.Sprintf("cannot stop %s services on", o.runtime)}
	if v := o.allAtOnce(phase, says, tasks, worker); v != nil {
		return v
	}
	return o.otherMembers(phase)
}

// stops reports that a restore stops what runs on a machine.
func stops(m *machine) bool {
	return !m.windows && m.roles != render.Roles{} && m.Plan.State.PlanExists
}

// otherMembers waits for etcd members that cannot get a plan to stop. A machine that was stopped before its deletion
// runs no member, and cannot go while the cluster is paused.
func (o *operation) otherMembers(phase string) *verdict {
	var lost, deleting []note
	for _, m := range o.unregistered {
		if m.roles.ETCD && m.delivered() {
			lost = append(lost, note{name: m.Name})
		}
	}
	for _, m := range o.collect(isEtcd, isDeleting, func(m *machine) bool { return !m.stopped() || !m.Plan.State.InSync }) {
		deleting = append(deleting, note{name: m.Name})
	}
	var v verdict
	switch {
	case len(lost) > 0:
		v = o.await(phase+": lost", stepDeadline, about("waiting for the plan secrets of etcd machine(s)", lost), WakePlanSecret, WakeMachine)
	case len(deleting) > 0:
		v = o.await(phase+": deleting", stepDeadline, about("waiting for etcd machines to delete:", deleting), WakeMachine)
	default:
		return nil
	}
	return &v
}

// cleanPods starts the init node. From a machine with an API server, it removes pods that the restored data list as
// running.
func (o *operation) cleanPods() verdict {
	o.restoring = true
	phase := rkev1.ETCDSnapshotPhasePostRestorePodCleanup
	return o.cleanUp(phase, rkev1.ETCDSnapshotPhaseInitialRestartCluster, func(m *machine) render.Work {
		uids, possible := []string{string(m.UID)}, []string(nil)
		switch {
		case m == o.init:
		case o.runtime == distro.RKE2:
			uids = append(uids, string(o.init.UID))
		// An operation does not wait for the kubelet of a K3s server that is only etcd, yet its node may be ready.
		default:
			possible = append(possible, string(o.init.UID))
		}
		for _, w := range o.collect(isLive, func(m *machine) bool { return m.windows }) { // no plan has stopped them
			possible = append(possible, string(w.UID))
		}
		return o.node(m).PodCleanupWork(uids, possible, o.attempt())
	})
}

// cleanNodes removes Nodes that have no machine any more.
func (o *operation) cleanNodes() verdict {
	o.restoring = true
	phase := rkev1.ETCDSnapshotPhasePostRestoreNodeCleanup
	return o.cleanUp(phase, rkev1.ETCDSnapshotPhaseRestartCluster, func(m *machine) render.Work {
		var uids, names []string
		for _, other := range slices.Concat(o.machines, o.unregistered) {
			if other.Deleting {
				continue
			}
			uids = append(uids, string(other.UID))
			if other.NodeName != "" {
				names = append(names, other.NodeName)
			}
		}
		return o.node(m).NodeCleanupWork(uids, names, o.attempt())
	})
}

// runs reports that a machine is known to work with its current plan.
func (p *pass) runs(m *machine) bool { return !m.sent && !m.down() && p.progress(m) == "" }

// startInit names the init node. When another machine is used for cleaning up (apart), it also makes sure that the init
// node runs before others join it. That is the case when the init node has no API server or is being deleted.
func (o *operation) startInit() (apart bool, stopped string, wait *Wait) {
	if stopped, wait = o.reconcile("join"); wait != nil {
		return false, stopped, wait
	}
	if apart = !o.init.roles.ControlPlane || o.init.Deleting; !apart {
		return false, "", nil
	}
	// An init node that is left out may still not run.
	if wait = stepInit(o.pass).wait; wait == nil && (o.init.marks.JoinURL == "" || !o.runs(o.init)) {
		wait = waitFor(ReasonJoinURL, "waiting for join server", WakeMachine, WakePlanSecret)
	}
	return true, "init", wait
}

// cleanUp gives one machine its ordinary plan with work on top: the init node, or the first machine with an API server
// when the init node has none. An init node that is being deleted gets no plan. Others only join it.
func (o *operation) cleanUp(phase, then rkev1.ETCDSnapshotPhase, work func(*machine) render.Work) verdict {
	step := string(phase)
	apart, stopped, wait := o.startInit()
	if wait != nil {
		return o.await(step+": "+stopped, restartDeadline, wait.Message, WakePlanSecret, append(wait.Wakes, WakeMachine)...)
	}
	m, joinURL := o.init, ""
	if apart {
		servers := o.collect(isControlPlane, isLive)
		if len(servers) == 0 {
			return o.await(step, stepDeadline, "waiting for a control plane machine", WakeMachine, WakePlanSecret)
		}
		m, joinURL = servers[0], o.init.marks.JoinURL
	}
	desired, found := o.render(m, joinURL)
	r := report{missing: found.message}
	if found.reason == ReasonRenderFailed {
		r = report{failed: found.message}
	}
	if r.done() {
		r = o.assign(task{m: m, plan: o.node(m).Extend(desired, work(m)), attempts: restartAttempts, disrupts: true, rejoins: true, joinURL: joinURL})
	}
	if v := o.judge(step+": "+m.Name, restoreDeadline, r); v != nil {
		return *v
	}
	o.enter(then)
	return o.next(step + " is done")
}
