package planner

import (
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// snapshotCreation takes a snapshot of etcd on every machine that has it (docs/wire/planner.md#snapshot):
//
//	Started → RestartCluster → Finished, or Failed
//
// It restarts nothing. RestartCluster is the phase in which the machines get their ordinary plans back.
type snapshotCreation struct{ *operation }

func stepSnapshotCreate(p *pass) verdict {
	o := snapshotCreation{newOperation(p, kindCreate)}
	return o.walk(o)
}

func (o snapshotCreation) request() *rkev1.ETCDSnapshotCreate {
	return o.s.ControlPlane.Spec.ETCDSnapshotCreate
}

func (o snapshotCreation) state() (requestState, string) {
	phase := o.status.ETCDSnapshotCreatePhase
	switch {
	case o.request() == nil:
		return requestAbsent, ""
	case o.isRunning() && (phase == rkev1.ETCDSnapshotPhaseStarted || phase == rkev1.ETCDSnapshotPhaseRestartCluster):
		return requestRunning, ""
	case o.ended():
		return requestEnded, "has ended: " + string(phase)
	}
	return readyUnless(o.heldUp())
}

func (o snapshotCreation) begin() any {
	o.status.ETCDSnapshotCreate, o.status.ETCDSnapshotCreatePhase = o.request().DeepCopy(), rkev1.ETCDSnapshotPhaseStarted
	return o.request()
}

func (o snapshotCreation) forget() {
	o.status.ETCDSnapshotCreate, o.status.ETCDSnapshotCreatePhase = nil, ""
}

func (o snapshotCreation) work() verdict {
	if o.status.ETCDSnapshotCreatePhase == rkev1.ETCDSnapshotPhaseStarted {
		return o.takeSnapshots()
	}
	return o.givePlansBack()
}

// ended reports that the requested snapshot was taken or has failed.
func (o snapshotCreation) ended() bool {
	last, ended := o.status.ETCDSnapshotCreate, []rkev1.ETCDSnapshotPhase{rkev1.ETCDSnapshotPhaseFinished, rkev1.ETCDSnapshotPhaseFailed}
	return last != nil && *last == *o.request() && slices.Contains(ended, o.status.ETCDSnapshotCreatePhase)
}

// heldUp is why a snapshot cannot be taken now, empty when it can.
func (o snapshotCreation) heldUp() string {
	why := o.otherRuns()
	switch {
	case why != "":
		return why
	case !o.initialized(), !conditions.IsTrue(o.status.Conditions, rkev1.ConditionBootstrapped):
		return "but the cluster is not up"
	case len(o.collect(isEtcd, isLive, (*machine).leftHalfWay)) > 0:
		return "but another operation has left etcd machines half-way"
	}
	return ""
}

// members are the machines that take a snapshot.
func (o snapshotCreation) members() []*machine { return o.collect(isEtcd, takesPart) }

// takeSnapshots starts all members at once, because none of them stops.
func (o snapshotCreation) takeSnapshots() verdict {
	members := o.members()
	if len(members) == 0 {
		return o.await("Started", stepDeadline, "waiting for a machine with etcd", WakePlanSecret, WakeMachine)
	}
	var tasks []task
	for _, m := range members {
		tasks = append(tasks, task{m: m, plan: o.withWork(m, o.node(m).SnapshotCreateWork(o.attempt())), attempts: commandAttempts})
	}
	if v := o.allAtOnce("Started", says{"waiting for a snapshot on", "no snapshot could be taken on"}, tasks, nil); v.stop {
		return v
	}
	o.status.ETCDSnapshotCreatePhase = rkev1.ETCDSnapshotPhaseRestartCluster
	return o.next("taken")
}

// givePlansBack ends when the etcd machines have their desired plans. It ignores changes that wait for their rollout.
// In a cluster that the user has paused, it ends at once, because machines get no plans.
func (o snapshotCreation) givePlansBack() verdict {
	if !o.s.Cluster.Paused {
		stopped, wait := o.reconcile("etcd")
		if wait != nil && !wait.forItsRollOut() {
			return o.awaitStep("RestartCluster: "+stopped, "the snapshot was taken; "+wait.Message, wait)
		}
	}
	o.status.ETCDSnapshotCreatePhase = rkev1.ETCDSnapshotPhaseFinished
	return o.succeed("")
}
