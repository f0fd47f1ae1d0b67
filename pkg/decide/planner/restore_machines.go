package planner

import (
	"errors"
	"fmt"
	"slices"

	"github.com/Masterminds/semver/v3"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// snapshot is the object that the restore names, nil when the name is that of a file on the machine.
func (o restore) snapshot() *ETCDSnapshot {
	for i, snapshot := range o.s.Snapshots {
		if snapshot.Name == o.status.ETCDSnapshotRestore.Name {
			return &o.s.Snapshots[i]
		}
	}
	return nil
}

// source is the snapshot to restore from, or why it cannot be restored.
func (o restore) source() (source render.Source, problem string) {
	found := o.snapshot()
	version := o.s.ControlPlane.Spec.KubernetesVersion
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
	case !canRestore(found.KubernetesVersion, version):
		return source, fmt.Sprintf("snapshot %s of version %s cannot be restored to version %s",
			found.Name, found.KubernetesVersion, version)
	case isNewer(found.KubernetesVersion, version):
		return source, fmt.Sprintf("snapshot %s of version %s is too new for version %s: restore it with "+
			"restoreRKEConfig: kubernetesVersion, or choose an older snapshot",
			found.Name, found.KubernetesVersion, version)
	}
	return render.Source{File: found.File, Folder: found.Folder, S3: found.S3, Size: found.Size}, ""
}

// canRestore is false for the one version border that data cannot cross (docs/wire/planner.md#restore). Drover tries
// versions that it cannot parse.
func canRestore(taken, current string) bool {
	border := semver.MustParse("1.25.0")
	from, err := semver.NewVersion(taken)
	if err != nil {
		return true
	}
	to, err := semver.NewVersion(current)
	return err != nil || to.LessThan(border) || !from.LessThan(border)
}

// problemNoTarget is the problem of a restore from S3 while no machine can start etcd. New machines end it.
const problemNoTarget = "waiting for viable init node"

// isNewer reports that data come from a newer minor version, which may have stored objects that the current version
// cannot read. Drover tries versions that it cannot parse.
func isNewer(taken, current string) bool {
	from, err := semver.NewVersion(taken)
	if err != nil {
		return false
	}
	to, err := semver.NewVersion(current)
	return err == nil && (from.Major() > to.Major() || from.Major() == to.Major() && from.Minor() > to.Minor())
}

// target is the machine on which etcd starts again, or why there is none. It is the machine that holds the snapshot.
// For a snapshot in S3 it is the init node, or the first machine that can be one. For a bare file name it is the only
// candidate.
func (o restore) target() (m *machine, problem string) {
	candidates := o.collect((*machine).canBeInit)
	found := o.snapshot()
	switch {
	case found == nil && len(candidates) != 1:
		return nil, "snapshot " + o.status.ETCDSnapshotRestore.Name +
			" is not known; to restore from a file of that name there must be exactly one machine with etcd"
	case found != nil && found.S3 == nil:
		i := slices.IndexFunc(candidates, func(m *machine) bool { return m.UID == found.MachineUID })
		if i < 0 {
			return nil, fmt.Sprintf("the machine that holds snapshot %s cannot start etcd or is gone", found.Name)
		}
		return candidates[i], ""
	case len(candidates) == 0:
		return nil, problemNoTarget
	}
	if i := slices.IndexFunc(candidates, func(m *machine) bool { return m.Marks.InitNode }); i >= 0 {
		return candidates[i], ""
	}
	return candidates[0], ""
}

// designate makes a machine the init node. All other marks are removed first.
func (o restore) designate(m *machine) verdict {
	others := only(o.all(), func(other *machine) bool { return other != m && other.marks.InitNode })
	if len(others) == 0 {
		m.marks.InitNode = true
		return verdict{}
	}
	for _, other := range others {
		other.marks.InitNode = false
	}
	message := about("another machine becomes the init node instead of", notesOf(others))
	return o.await("Restore: marks", stepDeadline, message, WakeMachine, WakePlanSecret)
}

// render returns the plan of the machine on which etcd starts again, or why there is none.
func (o restore) render(m *machine, source render.Source) (plan.NodePlan, report) {
	in := o.plans.inputFor(m, "")
	in.InitNode = true
	if !o.s.Versions.Knows(in.Version) {
		in.Version = o.s.Versions.Newest() // a restore starts everything again, in any version
	}
	want, err := o.s.Versions.RestorePlan(in, source, o.attempt())
	var pending *render.PendingError
	switch {
	case errors.As(err, &pending):
		return want, report{taskUnrendered, pending.Message}
	case err != nil:
		return want, report{taskFailed, err.Error()}
	}
	return want, report{}
}

// findInS3 makes sure that the snapshot is in S3 before anything stops. The machine that restores it asks, if its
// server can answer. A machine whose etcd does not work is not asked: a restore is what helps it.
func (o restore) findInS3(m *machine, source render.Source) verdict {
	searches := m.Plan.State.PlanExists && render.Finds(m.Plan.State.Plan)
	if source.S3 == nil || o.record().Stopped || !takesPart(m) || !searches && !m.etcdServes() {
		return verdict{}
	}
	work, err := render.FindInS3Work(o.plans.inputFor(m, ""), source, o.attempt())
	if err != nil {
		return o.fail(m.Name + ": " + err.Error())
	}
	r := o.assign(task{m: m, plan: o.withWork(m, work), attempts: searchAttempts})
	if r.state == taskUnhealthy {
		return verdict{} // the search is over
	}
	return o.judge("Started: "+m.Name, stepDeadline, r)
}

// serversRemain reports that a machine may run a server of the cluster as it was before the restore. A new machine does
// not: it has joined nothing, and nothing has joined it.
func (o restore) serversRemain() bool {
	return len(o.collect(isLive, hasPlan, func(m *machine) bool {
		return m.roles.Server() && (m.marks.JoinURL != "" || m.marks.JoinedTo != "")
	})) > 0
}

// stopMachines stops all machines except the one that restores, and waits until no server runs. Workers get the plan to
// stop too, but the restore does not wait for them: a worker that does not answer must not block the data. When all
// servers are gone, workers keep running: no data are left that they could act on. Deleting machines with etcd may
// still have a member. Drover releases them and waits until they are gone.
func (o restore) stopMachines(except *machine) verdict {
	for _, m := range o.collect(isEtcd, isDeleting, func(m *machine) bool { return !m.ForceRemove }) {
		o.last = append(o.last, ForceRemoveMachine{Machine: m.Name})
	}
	var tasks []task
	for _, m := range o.toStop() {
		if m == except && m.restored() {
			continue // its restore has begun already
		}
		t := task{m: m, attempts: restartAttempts, disrupts: true, optional: !m.roles.Server()}
		t.plan = o.withWork(m, o.node(m).StopWork(m.roles, o.attempt()))
		tasks = append(tasks, t)
	}
	what := fmt.Sprintf("stop %s services on", o.runtime)
	if v := o.allAtOnce(string(o.phase().name), "waiting to "+what, "cannot "+what, tasks); v.stop {
		return v
	}
	return o.awaitMembers()
}

// toStop are the machines that the restore stops. Workers keep running when all servers are gone.
func (o restore) toStop() []*machine {
	machines := o.collect(isLive, mustStop)
	if o.serversRemain() {
		return machines
	}
	return only(machines, func(m *machine) bool { return m.roles.Server() })
}

// mustStop reports that a restore stops what runs on a machine.
func mustStop(m *machine) bool {
	return m.roles != render.Roles{} && m.Plan.State.PlanExists
}

// awaitMembers waits for etcd members that cannot get a plan to stop. A machine that was stopped before its deletion
// runs no member, and cannot go while the cluster is paused.
func (o restore) awaitMembers() verdict {
	lost := only(o.unregistered, func(m *machine) bool { return m.roles.ETCD && m.gotPlan() })
	deleting := o.collect(isEtcd, isDeleting, func(m *machine) bool { return !m.stopped() || !m.Plan.State.InSync })
	phase := string(o.phase().name)
	switch {
	case len(lost) > 0:
		message := about("waiting for the plan secrets of etcd machine(s)", notesOf(lost))
		return o.await(phase+": lost", stepDeadline, message, WakePlanSecret, WakeMachine)
	case len(deleting) > 0:
		message := about("waiting for etcd machines to delete:", notesOf(deleting))
		return o.await(phase+": deleting", stepDeadline, message, WakeMachine)
	}
	return verdict{}
}

// podCleanup removes pods that the restored data list as running. It runs on a machine with an API server.
func (o restore) podCleanup(m *machine) render.Work {
	uids, possible := []string{string(m.UID)}, []string(nil)
	switch {
	case m == o.init:
	case o.runtime == distro.RKE2:
		uids = append(uids, string(o.init.UID))
	// An operation does not wait for the kubelet of a K3s server that is only etcd, yet its node may be ready.
	default:
		possible = append(possible, string(o.init.UID))
	}
	// No plan has stopped unsupported machines, and workers when all servers were gone.
	keepsRunning := func(m *machine) bool { return m.roles.OnlyWorker() && hasPlan(m) && !m.down() }
	for _, w := range slices.Concat(o.collect(isLive, keepsRunning), only(o.unsupported, isLive)) {
		possible = append(possible, string(w.UID))
	}
	return o.node(m).PodCleanupWork(uids, possible, o.attempt())
}

// nodeCleanup removes Nodes that have no machine any more.
func (o restore) nodeCleanup(m *machine) render.Work {
	var uids, names []string
	for _, other := range only(o.all(), isLive) {
		uids = append(uids, string(other.UID))
		if other.NodeName != "" {
			names = append(names, other.NodeName)
		}
	}
	return o.node(m).NodeCleanupWork(uids, names, o.attempt())
}

// works reports that a machine is known to work with its current plan.
func (o restore) works(m *machine) bool { return !m.getsPlan && !m.down() && o.progress.of(m) == "" }

// startInit names the init node. When another machine is used for cleaning up (apart), it also makes sure that the init
// node runs before others join it. That is the case when the init node has no API server or is being deleted.
func (o restore) startInit() (apart bool, stopped string, wait *Wait) {
	if stopped, wait = o.reconcile("join"); wait != nil {
		return false, stopped, wait
	}
	if apart = !o.init.roles.ControlPlane || o.init.Deleting; !apart {
		return false, "", nil
	}
	// An init node that is left out may still not run.
	if wait = stepInit(o.pass).wait; wait == nil && (o.init.marks.JoinURL == "" || !o.works(o.init)) {
		wait = waitFor(ReasonJoinURL, "waiting for join server", WakeMachine, WakePlanSecret)
	}
	return true, "init", wait
}

// cleanUp gives one machine its ordinary plan with work on top: the init node, or the first machine with an API server
// when the init node has none. An init node that is being deleted gets no plan. Others only join it.
func (o restore) cleanUp(work func(*machine) render.Work) verdict {
	step := string(o.phase().name)
	apart, stopped, wait := o.startInit()
	if wait != nil {
		return o.awaitStep(step+": "+stopped, wait.Message, wait)
	}
	m, joinURL := o.init, ""
	if apart {
		servers := o.collect(isControlPlane, isLive)
		if len(servers) == 0 {
			return o.await(step, stepDeadline, "waiting for a control plane machine", WakeMachine, WakePlanSecret)
		}
		m, joinURL = servers[0], o.init.marks.JoinURL
	}
	var r report
	switch desired, found := o.plans.render(m, joinURL); {
	case found.reason == ReasonRenderFailed:
		r = report{taskFailed, found.message}
	case found.message != "":
		r = report{taskUnrendered, found.message}
	default:
		t := task{m: m, attempts: restartAttempts, disrupts: true, rejoins: true, joinURL: joinURL}
		t.plan = o.node(m).Extend(desired, work(m))
		r = o.assign(t)
	}
	if v := o.judge(step+": "+m.Name, restoreDeadline, r); v.stop {
		return v
	}
	return o.advance()
}
