package planner

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// restorePhase is a phase of a restore.
type restorePhase struct {
	name rkev1.ETCDSnapshotPhase
	data etcdData
	// pauses is true while Cluster API must leave the machines alone.
	pauses bool
	// done is the message at the end of the phase.
	done string
}

// etcdData is where the data of etcd are during a phase of a restore.
type etcdData int

const (
	// dataInUse: the machines run with their old data.
	dataInUse etcdData = iota
	// dataGivenUp: the machines stop and give up their old data.
	dataGivenUp
	// dataRestored: a machine has the restored data, and other machines are still down.
	dataRestored
	// dataShared: every machine was started after the restore.
	dataShared
)

// restorePhases in their order (docs/wire/planner.md#restore). Finished follows. Each can end in Failed.
var restorePhases = []restorePhase{
	{name: rkev1.ETCDSnapshotPhaseStarted, data: dataInUse, done: "shutting down cluster"},
	{name: rkev1.ETCDSnapshotPhaseShutdown, data: dataGivenUp, done: "cluster shutdown complete, running etcd restore"},
	{name: rkev1.ETCDSnapshotPhaseRestore, data: dataGivenUp, pauses: true, done: "etcd is restored"},
	{name: rkev1.ETCDSnapshotPhasePostRestorePodCleanup, data: dataRestored, pauses: true, done: "PostRestorePodCleanup is done"},
	{name: rkev1.ETCDSnapshotPhaseInitialRestartCluster, data: dataRestored, done: "all machines are up"},
	{name: rkev1.ETCDSnapshotPhasePostRestoreNodeCleanup, data: dataShared, done: "PostRestoreNodeCleanup is done"},
	{name: rkev1.ETCDSnapshotPhaseRestartCluster, data: dataShared},
}

// restorePhaseOf is the index of the phase in restorePhases, -1 when there is none.
func restorePhaseOf(status *rkev1.RKEControlPlaneStatus) int {
	return slices.IndexFunc(restorePhases, func(p restorePhase) bool { return p.name == status.ETCDSnapshotRestorePhase })
}

// hintStopped is the advice when a restore fails while the cluster is down.
const hintStopped = "the cluster is stopped, request a restore again"

// restore restores the whole cluster from a snapshot of etcd (docs/wire/planner.md#restore). A new request starts from
// the beginning at any time, which is the way out of a restore that cannot work. Removing a request ends nothing after
// machines were stopped. They have given up their data, and starting them without a restore would begin an empty
// cluster.
type restore struct{ *operation }

func stepRestore(p *pass) verdict {
	o := restore{newOperation(p, kindRestore)}
	return o.walk(o)
}

// request is the request in the spec, nil when it requests nothing.
func (o restore) request() *rkev1.ETCDSnapshotRestore {
	request := o.s.ControlPlane.Spec.ETCDSnapshotRestore
	if request == nil || request.Name == "" {
		return nil
	}
	return request
}

func (o restore) state() (requestState, string) {
	phase, stopped := o.status.ETCDSnapshotRestorePhase, o.record().Stopped
	switch {
	case o.isNew():
		if stopped {
			return requestReady, ""
		}
		return readyUnless(o.otherRuns())
	case o.hasBegun() && (o.request() != nil || stopped || phase != rkev1.ETCDSnapshotPhaseStarted):
		return requestRunning, ""
	case stopped:
		return requestStranded, ""
	case o.request() == nil:
		return requestAbsent, ""
	}
	return requestEnded, "has ended: " + string(phase)
}

func (o restore) begin() any {
	o.status.ETCDSnapshotRestore, o.status.ETCDSnapshotRestorePhase = o.request().DeepCopy(), restorePhases[0].name
	return o.request()
}

func (o restore) forget() { o.status.ETCDSnapshotRestore, o.status.ETCDSnapshotRestorePhase = nil, "" }

// hasBegun reports that a restore has begun and has not ended.
func (o restore) hasBegun() bool { return o.isRunning() && restorePhaseOf(&o.status) >= 0 }

// isNew reports that a request was not started yet, or was started without a record and has not ended.
func (o restore) isNew() bool {
	request, last, phase := o.request(), o.status.ETCDSnapshotRestore, o.status.ETCDSnapshotRestorePhase
	ended := phase == rkev1.ETCDSnapshotPhaseFinished || phase == rkev1.ETCDSnapshotPhaseFailed
	return request != nil && (last == nil || *last != *request || !o.hasBegun() && !ended)
}

// phase is the current phase of a restore that has begun.
func (o restore) phase() restorePhase { return restorePhases[restorePhaseOf(&o.status)] }

// advance ends a phase and begins the next one.
func (o restore) advance() verdict {
	done, next := o.phase().done, rkev1.ETCDSnapshotPhaseFinished
	if i := restorePhaseOf(&o.status) + 1; i < len(restorePhases) {
		next = restorePhases[i].name
	}
	o.status.ETCDSnapshotRestorePhase = next
	record := o.record()
	record.Step, record.StepStartedAt = string(next), nil
	// Machines are stopped between these two phases.
	record.Stopped = next == rkev1.ETCDSnapshotPhaseShutdown || record.Stopped && next != rkev1.ETCDSnapshotPhasePostRestorePodCleanup
	o.remember(record)
	if next == rkev1.ETCDSnapshotPhaseFinished {
		return o.succeed("")
	}
	return o.next(done)
}

// work works on one phase.
func (o restore) work() verdict {
	phase := o.phase()
	if o.record().Stopped {
		o.hint = hintStopped
	}
	if phase.data >= dataRestored && o.dataLost() {
		return o.loseData()
	}
	o.restoring = phase.data >= dataRestored
	switch phase.name {
	case rkev1.ETCDSnapshotPhaseStarted:
		return o.checkFirst()
	case rkev1.ETCDSnapshotPhaseShutdown:
		return o.shutDown()
	case rkev1.ETCDSnapshotPhaseRestore:
		return o.restoreEtcd()
	case rkev1.ETCDSnapshotPhasePostRestorePodCleanup:
		return o.cleanUp(o.podCleanup)
	case rkev1.ETCDSnapshotPhasePostRestoreNodeCleanup:
		return o.cleanUp(o.nodeCleanup)
	default:
		return o.restartAll()
	}
}

// dataLost reports that no remaining machine may have the restored data: each etcd machine got no plan, or only one
// that stops it. The next machine to start would begin an empty cluster.
func (o restore) dataLost() bool {
	hasData := func(m *machine) bool { return m.roles.ETCD && m.delivered() && !m.stopped() }
	return !slices.ContainsFunc(slices.Concat(o.machines, o.unregistered), hasData)
}

// problemDataLost describes dataLost to users.
const problemDataLost = "the machine that etcd was restored on is gone"

// loseData ends a restore whose machine and data are gone. Only another restore starts etcd then.
func (o restore) loseData() verdict {
	record := o.record()
	record.Stopped = true
	o.remember(record)
	o.hint = hintStopped
	return o.fail(problemDataLost)
}

// checkFirst finds problems that would make the restore fail, while everything still runs.
func (o restore) checkFirst() verdict {
	if _, problem := o.check(); problem != "" {
		return o.fail(problem)
	}
	o.setInitialized(false)
	return o.advance()
}

// check is the machine on which etcd would start again, or why the restore cannot work.
func (o restore) check() (m *machine, problem string) {
	source, problem := o.source()
	if problem != "" {
		return nil, problem
	}
	if m, problem = o.target(); problem != "" {
		return nil, problem
	}
	if _, r := o.render(m, source); r.state == taskFailed {
		return nil, m.Name + ": " + r.message
	}
	return m, ""
}

// shutDown stops all machines at once.
func (o restore) shutDown() verdict {
	if v := o.stopMachines(nil); v.stop {
		return v
	}
	if len(o.collect(isEtcd, isLive)) == 0 {
		return o.await("Shutdown: etcd", stepDeadline, "waiting for suitable etcd nodes for etcd restore continuation", WakeMachine, WakePlanSecret)
	}
	o.set(rkev1.ConditionBootstrapped, corev1.ConditionFalse, rkev1.ReasonWaiting, "")
	return o.advance()
}

// restoreEtcd restores the snapshot on one machine. No other machine may run etcd until the cluster is up on that
// machine: it could continue with the data that the restore discards.
func (o restore) restoreEtcd() verdict {
	if v := o.pause(); v.stop {
		return v
	}
	source, problem := o.source()
	if problem != "" {
		return o.fail(problem)
	}
	m, problem := o.target()
	if problem != "" {
		return o.await("Restore: machine", stepDeadline, problem, WakeMachine, WakePlanSecret, WakeSnapshot)
	}
	if v := o.stopMachines(m); v.stop {
		return v
	}
	if v := o.designate(m); v.stop {
		return v
	}
	want, r := o.render(m, source)
	if r.state == taskDone {
		r = o.assign(task{m: m, plan: want, attempts: commandAttempts, disrupts: true, rejoins: true})
	}
	if v := o.judge("Restore: "+m.Name, restoreDeadline, r); v.stop {
		return v
	}
	o.status.ConfigGeneration++
	return o.advance()
}

// restartAll brings all machines to their desired plans. A change that waits for its rollout holds up the first of the
// two passes, because machines behind it are still down, but not the last. Machines that are left out hold up nothing.
// They are the last that a walk waits for, and rollouts continue with them when they are back.
func (o restore) restartAll() verdict {
	phase := o.phase().name
	stopped, wait := o.reconcile("worker")
	isLast := phase == rkev1.ETCDSnapshotPhaseRestartCluster
	if wait != nil && wait.Reason != ReasonLeftOut && (!isLast || !wait.forItsRollOut()) {
		return o.awaitStep(string(phase)+": "+stopped, wait.Message, wait)
	}
	return o.advance()
}
