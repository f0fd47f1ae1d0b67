package planner

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// restorePhases in their order (docs/wire/planner.md#restore). Each of them can end in Failed.
var restorePhases = []rkev1.ETCDSnapshotPhase{
	rkev1.ETCDSnapshotPhaseStarted,
	rkev1.ETCDSnapshotPhaseShutdown,
	rkev1.ETCDSnapshotPhaseRestore,
	rkev1.ETCDSnapshotPhasePostRestorePodCleanup,
	rkev1.ETCDSnapshotPhaseInitialRestartCluster,
	rkev1.ETCDSnapshotPhasePostRestoreNodeCleanup,
	rkev1.ETCDSnapshotPhaseRestartCluster,
	rkev1.ETCDSnapshotPhaseFinished,
}

// hintStopped is the advice when a restore fails while the cluster is down.
const hintStopped = "the cluster is stopped, request a restore again"

// stepRestore restores the whole cluster from a snapshot of etcd (docs/wire/planner.md#restore). A new request starts
// from the beginning at any time, which is the way out of a restore that cannot work. Removing a request ends nothing
// after machines were stopped. They have given up their data, and starting them without a restore would begin an empty
// cluster.
func stepRestore(p *pass) verdict {
	o := &operation{pass: p, kind: kindRestore, setFailed: func() { p.status.ETCDSnapshotRestorePhase = rkev1.ETCDSnapshotPhaseFailed }}
	request, phase := restoreAsked(p.s.ControlPlane.Spec.ETCDSnapshotRestore), p.status.ETCDSnapshotRestorePhase
	stopped := p.record(kindRestore).Stopped
	switch {
	case request != nil && o.isNews(request):
		if why := p.occupied(kindRestore); why != "" && !stopped {
			return goOn("a restore is asked for, " + why)
		}
		p.status.ETCDSnapshotRestore = request.DeepCopy()
		o.enter(rkev1.ETCDSnapshotPhaseStarted)
		return o.start(request)
	case o.restores() && (request != nil || stopped || phase != rkev1.ETCDSnapshotPhaseStarted):
		return o.restore(phase)
	case stopped:
		return stopFor(failure(ReasonOperationFailed, o.title+" failed: "+p.record(kindRestore).Message, WakeControlPlane))
	case request == nil:
		o.cancel()
		p.status.ETCDSnapshotRestore, p.status.ETCDSnapshotRestorePhase = nil, ""
		return goOn("no restore is asked for")
	}
	return goOn("the restore that is asked for has ended: " + string(phase))
}

// restoreAsked is the request, nil when it requests nothing.
func restoreAsked(request *rkev1.ETCDSnapshotRestore) *rkev1.ETCDSnapshotRestore {
	if request == nil || request.Name == "" {
		return nil
	}
	return request
}

// restores reports that a restore is in progress.
func (o *operation) restores() bool {
	return o.isRunning(kindRestore) && slices.Contains(restorePhases[:len(restorePhases)-1], o.status.ETCDSnapshotRestorePhase)
}

// isNews reports that a request was not started yet, or was started without a record and has not ended.
func (o *operation) isNews(request *rkev1.ETCDSnapshotRestore) bool {
	last, phase := o.status.ETCDSnapshotRestore, o.status.ETCDSnapshotRestorePhase
	ended := phase == rkev1.ETCDSnapshotPhaseFinished || phase == rkev1.ETCDSnapshotPhaseFailed
	return last == nil || *last != *request || !o.restores() && !ended
}

// enter begins a phase.
func (o *operation) enter(phase rkev1.ETCDSnapshotPhase) {
	o.status.ETCDSnapshotRestorePhase = phase
	record := o.record(o.kind)
	record.Step, record.StepStartedAt = string(phase), nil
	// Machines are stopped between these two phases.
	record.Stopped = phase == rkev1.ETCDSnapshotPhaseShutdown || record.Stopped && phase != rkev1.ETCDSnapshotPhasePostRestorePodCleanup
	o.remember(record)
}

// restore works on one phase.
func (o *operation) restore(phase rkev1.ETCDSnapshotPhase) verdict {
	if o.record(o.kind).Stopped {
		o.hint = hintStopped
	}
	if slices.Index(restorePhases, phase) > slices.Index(restorePhases, rkev1.ETCDSnapshotPhaseRestore) && o.dataLost() {
		return o.loseData()
	}
	switch phase {
	case rkev1.ETCDSnapshotPhaseStarted:
		return o.checkRestore()
	case rkev1.ETCDSnapshotPhaseShutdown:
		return o.shutDown()
	case rkev1.ETCDSnapshotPhaseRestore:
		return o.restoreEtcd()
	case rkev1.ETCDSnapshotPhasePostRestorePodCleanup:
		return o.cleanPods()
	case rkev1.ETCDSnapshotPhaseInitialRestartCluster:
		return o.restartAll(phase, rkev1.ETCDSnapshotPhasePostRestoreNodeCleanup)
	case rkev1.ETCDSnapshotPhasePostRestoreNodeCleanup:
		return o.cleanNodes()
	default:
		return o.restartAll(phase, rkev1.ETCDSnapshotPhaseFinished)
	}
}

// dataLost reports that no remaining machine may have the restored data: each etcd machine got no plan, or only one
// that stops it. The next machine to start would begin an empty cluster.
func (o *operation) dataLost() bool {
	return !slices.ContainsFunc(slices.Concat(o.machines, o.unregistered), func(m *machine) bool { return m.roles.ETCD && m.delivered() && !m.stopped() })
}

// problemDataLost describes dataLost to users.
const problemDataLost = "the machine that etcd was restored on is gone"

// loseData ends a restore whose machine and data are gone. Only another restore starts etcd then.
func (o *operation) loseData() verdict {
	record := o.record(o.kind)
	record.Stopped = true
	o.remember(record)
	o.hint = hintStopped
	return o.fail(problemDataLost)
}

// checkRestore finds problems that would make the restore fail, while everything still runs.
func (o *operation) checkRestore() verdict {
	if _, problem := o.restoreCheck(); problem != "" {
		return o.fail(problem)
	}
	o.setInitialized(false)
	o.enter(rkev1.ETCDSnapshotPhaseShutdown)
	return o.next("shutting down cluster")
}

// restoreCheck is the machine on which etcd would start again, or why the restore cannot work.
func (o *operation) restoreCheck() (m *machine, problem string) {
	source, problem := o.source()
	if problem != "" {
		return nil, problem
	}
	if m, problem = o.restoreOn(); problem != "" {
		return nil, problem
	}
	if r := o.tryRender(m, source); r.failed != "" {
		return nil, m.Name + ": " + r.failed
	}
	return m, ""
}

// shutDown stops all machines at once.
func (o *operation) shutDown() verdict {
	if v := o.stopMachines(string(rkev1.ETCDSnapshotPhaseShutdown)); v != nil {
		return *v
	}
	if len(o.collect(isEtcd, isLive)) == 0 {
		return o.await("Shutdown: etcd", stepDeadline, "waiting for suitable etcd nodes for etcd restore continuation", WakeMachine, WakePlanSecret)
	}
	o.set(rkev1.ConditionBootstrapped, corev1.ConditionFalse, rkev1.ReasonWaiting, "")
	o.enter(rkev1.ETCDSnapshotPhaseRestore)
	return o.next("cluster shutdown complete, running etcd restore")
}

// restoreEtcd restores the snapshot on one machine. No other machine may run etcd until the cluster is up on that
// machine: it could continue with the data that the restore discards.
func (o *operation) restoreEtcd() verdict {
	phase := string(rkev1.ETCDSnapshotPhaseRestore)
	if v := o.pause(); v != nil {
		return *v
	}
	source, problem := o.source()
	if problem != "" {
		return o.fail(problem)
	}
	m, problem := o.restoreOn()
	if problem != "" {
		return o.await(phase+": machine", stepDeadline, problem, WakeMachine, WakePlanSecret, WakeSnapshot)
	}
	if v := o.stopMachines(phase, m); v != nil {
		return *v
	}
	if v := o.designate(m); v != nil {
		return *v
	}
	r := o.tryRender(m, source)
	if r.done() {
		r.report = o.assign(task{m: m, plan: r.plan, attempts: commandAttempts, disrupts: true, rejoins: true})
	}
	if v := o.judge(phase+": "+m.Name, restoreDeadline, r.report); v != nil {
		return *v
	}
	o.status.ConfigGeneration++
	o.enter(rkev1.ETCDSnapshotPhasePostRestorePodCleanup)
	return o.next("etcd is restored")
}

// restartAll brings all machines to their desired plans. A change that waits for its rollout holds up the first of the
// two passes, because machines behind it are still down, but not the last. Machines that are left out hold up nothing.
// They are the last that a walk waits for, and rollouts continue with them when they are back.
func (o *operation) restartAll(phase, then rkev1.ETCDSnapshotPhase) verdict {
	o.restoring = true
	last := then == rkev1.ETCDSnapshotPhaseFinished
	stopped, wait := o.reconcile("worker")
	if wait != nil && wait.Reason != ReasonLeftOut && (!last || !wait.forItsRollOut()) {
		return o.await(string(phase)+": "+stopped, restartDeadline, wait.Message, WakePlanSecret, append(wait.Wakes, WakeMachine)...)
	}
	o.enter(then)
	if last {
		return o.succeed("")
	}
	return o.next("all machines are up")
}
