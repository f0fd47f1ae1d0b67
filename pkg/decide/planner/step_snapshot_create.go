package planner

import (
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// stepSnapshotCreate takes a snapshot of etcd on every machine that has it (docs/wire/planner.md#snapshot):
//
//	Started → RestartCluster → Finished, or Failed
//
// It restarts nothing. RestartCluster is the phase in which the machines get their ordinary plans back.
func stepSnapshotCreate(p *pass) verdict {
	o := &operation{pass: p, kind: kindCreate, setFailed: func() { p.status.ETCDSnapshotCreatePhase = rkev1.ETCDSnapshotPhaseFailed }}
	request, phase := p.s.ControlPlane.Spec.ETCDSnapshotCreate, p.status.ETCDSnapshotCreatePhase
	if request == nil {
		o.cancel()
		p.status.ETCDSnapshotCreate, p.status.ETCDSnapshotCreatePhase = nil, ""
		return goOn("no snapshot is asked for")
	}
	if p.isRunning(kindCreate) && phase == rkev1.ETCDSnapshotPhaseStarted {
		return o.takeSnapshots()
	}
	if p.isRunning(kindCreate) && phase == rkev1.ETCDSnapshotPhaseRestartCluster {
		return o.givePlansBack()
	}
	if p.snapshotEnded() {
		return goOn("the snapshot that is asked for has ended: " + string(phase))
	}
	if why := p.noSnapshotNow(); why != "" {
		return goOn("a snapshot is asked for, " + why)
	}
	p.status.ETCDSnapshotCreate, p.status.ETCDSnapshotCreatePhase = request.DeepCopy(), rkev1.ETCDSnapshotPhaseStarted
	return o.start(request)
}

// snapshotEnded reports that the requested snapshot was taken or has failed.
func (p *pass) snapshotEnded() bool {
	request, last := p.s.ControlPlane.Spec.ETCDSnapshotCreate, p.status.ETCDSnapshotCreate
	ended := []rkev1.ETCDSnapshotPhase{rkev1.ETCDSnapshotPhaseFinished, rkev1.ETCDSnapshotPhaseFailed}
	return last != nil && *last == *request && slices.Contains(ended, p.status.ETCDSnapshotCreatePhase)
}

// noSnapshotNow is why a snapshot cannot be taken now, empty when it can.
func (p *pass) noSnapshotNow() string {
	why := p.occupied(kindCreate)
	switch {
	case why != "":
		return why
	case !p.initialized(), !conditions.IsTrue(p.status.Conditions, rkev1.ConditionBootstrapped):
		return "but the cluster is not up"
	case len(p.collect(isEtcd, isLive, (*machine).leftHalfWay)) > 0:
		return "but another operation has left etcd machines half-way"
	}
	return ""
}

// snapshotMembers are the machines that take a snapshot.
func (p *pass) snapshotMembers() []*machine { return p.collect(isEtcd, takesPart) }

// takeSnapshots starts all members at once, because none of them stops.
func (o *operation) takeSnapshots() verdict {
	members := o.snapshotMembers()
	if len(members) == 0 {
		return o.await("Started", stepDeadline, "waiting for a machine with etcd", WakePlanSecret, WakeMachine)
	}
	var tasks []task
	for _, m := range members {
		tasks = append(tasks, task{m: m, plan: o.work(m, o.node(m).SnapshotCreateWork(o.attempt())), attempts: commandAttempts})
	}
	if v := o.allAtOnce("Started", says{"waiting for a snapshot on", "no snapshot could be taken on"}, tasks, nil); v != nil {
		return *v
	}
	o.status.ETCDSnapshotCreatePhase = rkev1.ETCDSnapshotPhaseRestartCluster
	return o.next("taken")
}

// givePlansBack ends when the etcd machines have their desired plans. It ignores changes that wait for their rollout.
// In a cluster that the user has paused, it ends at once, because machines get no plans.
func (o *operation) givePlansBack() verdict {
	if o.s.Cluster.Paused {
		o.status.ETCDSnapshotCreatePhase = rkev1.ETCDSnapshotPhaseFinished
		return o.succeed("")
	}
	stopped, wait := o.reconcile("etcd")
	if wait != nil && !wait.forItsRollOut() {
		return o.await("RestartCluster: "+stopped, restartDeadline, "the snapshot was taken; "+wait.Message, WakePlanSecret, append(wait.Wakes, WakeMachine)...)
	}
	o.status.ETCDSnapshotCreatePhase = rkev1.ETCDSnapshotPhaseFinished
	return o.succeed("")
}
