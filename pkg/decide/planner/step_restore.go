package planner

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// restorePhase is a phase of a restore.
type restorePhase struct {
	name rkev1.ETCDSnapshotPhase
	data etcdData
	done string // the message at the end of the phase
}

// etcdData is where the data of etcd are during a phase of a restore.
type etcdData int

const (
	dataInUse    etcdData = iota // the machines run with their old data
	dataGivenUp                  // the machines stop and give up their old data
	dataRestored                 // a machine has the restored data, and other machines are still down
	dataShared                   // every machine was started after the restore
)

// restorePhases in their order (docs/wire/planner.md#restore). Finished follows. Each can end in Failed.
var restorePhases = []restorePhase{
	{rkev1.ETCDSnapshotPhaseStarted, dataInUse, "shutting down cluster"},
	{rkev1.ETCDSnapshotPhaseShutdown, dataGivenUp, "cluster shutdown complete, running etcd restore"},
	{rkev1.ETCDSnapshotPhaseRestore, dataGivenUp, "etcd is restored"},
	{rkev1.ETCDSnapshotPhasePostRestorePodCleanup, dataRestored, "PostRestorePodCleanup is done"},
	{rkev1.ETCDSnapshotPhaseInitialRestartCluster, dataRestored, "all machines are up"},
	{rkev1.ETCDSnapshotPhasePostRestoreNodeCleanup, dataShared, "PostRestoreNodeCleanup is done"},
	{rkev1.ETCDSnapshotPhaseRestartCluster, dataShared, ""},
}

const (
	// hintStopped is the advice when a restore fails while the cluster is down.
	hintStopped = "the cluster is stopped, request a restore again"
	// problemDataLost describes dataLost to users.
	problemDataLost = "the machine that etcd was restored on is gone"
)

// restore restores the whole cluster from a snapshot of etcd (docs/wire/planner.md#restore). A new request starts from
// the beginning at any time, which is the way out of a restore that cannot work. Removing a request ends nothing after
// machines were stopped. They have given up their data, and starting them without a restore would begin an empty
// cluster.
type restore struct{ *operation }

// request is the request in the spec, nil when it requests nothing.
func (o restore) request() *rkev1.ETCDSnapshotRestore {
	if request := o.spec().ETCDSnapshotRestore; request != nil && request.Name != "" {
		return request
	}
	return nil
}

func (o restore) state() (requestState, string) {
	phase, stopped := o.status.ETCDSnapshotRestorePhase, o.record().Stopped
	switch {
	case o.isNew() && stopped: // nothing can hold it up
		return requestNew, ""
	case o.isNew():
		return requestNew, o.otherRuns()
	case o.isUnderWay() && (o.request() != nil || stopped || phase != rkev1.ETCDSnapshotPhaseStarted):
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

// isUnderWay reports that a restore has begun and has not ended.
func (o restore) isUnderWay() bool { return o.isRunning() && o.index() >= 0 }

// isNew reports that a request was not started yet, or was started without a record and has not ended.
func (o restore) isNew() bool {
	request, last, phase := o.request(), o.status.ETCDSnapshotRestore, o.status.ETCDSnapshotRestorePhase
	ended := phase == rkev1.ETCDSnapshotPhaseFinished || phase == rkev1.ETCDSnapshotPhaseFailed
	return request != nil && (last == nil || *last != *request || !o.isUnderWay() && !ended)
}

// isFromS3 reports that a restore of a snapshot in S3 is requested, and has not ended.
func (o restore) isFromS3() bool {
	request := o.request()
	if state, _ := o.state(); request == nil || state != requestNew && state != requestRunning {
		return false
	}
	return slices.ContainsFunc(o.s.Snapshots, func(s ETCDSnapshot) bool {
		return s.Name == request.Name && s.S3 != nil && !s.Failed
	})
}

// index is that of the phase in restorePhases, -1 when there is none.
func (o restore) index() int {
	phase := o.status.ETCDSnapshotRestorePhase
	return slices.IndexFunc(restorePhases, func(p restorePhase) bool { return p.name == phase })
}

// phase is the current phase of a restore that has begun.
func (o restore) phase() restorePhase { return restorePhases[o.index()] }

// advance ends a phase and begins the next one.
func (o restore) advance() verdict {
	done, next := o.phase().done, rkev1.ETCDSnapshotPhaseFinished
	if i := o.index() + 1; i < len(restorePhases) {
		next = restorePhases[i].name
	}
	o.status.ETCDSnapshotRestorePhase = next
	record := o.record()
	record.Step, record.StepStartedAt = string(next), nil
	// Machines are stopped between these two phases.
	record.Stopped = next == rkev1.ETCDSnapshotPhaseShutdown ||
		record.Stopped && next != rkev1.ETCDSnapshotPhasePostRestorePodCleanup
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
	if phase.data >= dataRestored && o.dataLost() { // only another restore starts etcd then
		record := o.record()
		record.Stopped, o.hint = true, hintStopped
		o.remember(record)
		return o.fail(problemDataLost)
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
	hasData := func(m *machine) bool { return m.roles.ETCD && m.gotPlan() && !m.stopped() }
	return !slices.ContainsFunc(o.all(), hasData)
}

// checkFirst finds problems that would make the restore fail, while everything still runs. It waits for a machine that
// can start etcd: when all servers are gone, new ones may be on their way.
func (o restore) checkFirst() verdict {
	if configures(o.request()) && !o.record().Stopped {
		o.hint = hintConfiguration
	}
	m, problem := o.check()
	if problem != "" && problem != problemNoTarget {
		return o.fail(problem)
	}
	if configuration := o.configurationProblem(); configuration != "" {
		return o.fail(configuration)
	}
	if problem != "" {
		return o.await("Started: machine", stepDeadline, problem, WakeMachine, WakePlanSecret)
	}
	source, _ := o.source()
	if v := o.findInS3(m, source); v.stop {
		return v
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
		message := "waiting for suitable etcd nodes for etcd restore continuation"
		return o.await("Shutdown: etcd", stepDeadline, message, WakeMachine, WakePlanSecret)
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
	if wait != nil && wait.Reason != ReasonLeftOut && (!isLast || !wait.isForRollout()) {
		return o.awaitStep(string(phase)+": "+stopped, wait.Message, wait)
	}
	return o.advance()
}

// Restoring reports that nodes may be down because a restore has stopped them: it is in progress, or it has failed and
// not all machines run again. Controllers that replace unhealthy machines must wait for that.
func Restoring(cp *rkev1.RKEControlPlane) bool {
	switch cp.Status.ETCDSnapshotRestorePhase {
	case "", rkev1.ETCDSnapshotPhaseFinished:
		return false
	case rkev1.ETCDSnapshotPhaseFailed:
	default:
		return true
	}
	if step := kindRestore.recordIn(&cp.Status).Step; step == "" || step == string(rkev1.ETCDSnapshotPhaseStarted) {
		return false // it has stopped nothing
	}
	ready := conditions.Get(cp.Status.Conditions, rkev1.ConditionReady)
	return ready == nil || ready.Status != rkev1.ConditionTrue && !(&Wait{Reason: Reason(ready.Reason)}).isForRollout()
}
