package planner

import (
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// snapshotCreation takes a snapshot of etcd on every machine that has it (docs/wire/planner.md#snapshot):
//
//	Started → RestartCluster → Finished, or Failed
//
// It restarts nothing. RestartCluster is the phase in which the machines get their ordinary plans back.
type snapshotCreation struct{ *operation }

func (o snapshotCreation) state() (requestState, string) {
	phase := o.status.ETCDSnapshotCreatePhase
	switch {
	case o.spec().ETCDSnapshotCreate == nil:
		return requestAbsent, ""
	case o.isRunning() && (phase == rkev1.ETCDSnapshotPhaseStarted || phase == rkev1.ETCDSnapshotPhaseRestartCluster):
		return requestRunning, ""
	case o.hasEnded():
		return requestEnded, "has ended: " + string(phase)
	}
	return requestNew, o.heldUp()
}

func (o snapshotCreation) begin() any {
	o.status.ETCDSnapshotCreate = o.spec().ETCDSnapshotCreate.DeepCopy()
	o.status.ETCDSnapshotCreatePhase = rkev1.ETCDSnapshotPhaseStarted
	return o.spec().ETCDSnapshotCreate
}

func (o snapshotCreation) work() verdict {
	if o.status.ETCDSnapshotCreatePhase == rkev1.ETCDSnapshotPhaseStarted {
		return o.takeSnapshots()
	}
	return o.givePlansBack()
}

// hasEnded reports that the requested snapshot was taken or has failed.
func (o snapshotCreation) hasEnded() bool {
	last, phase := o.status.ETCDSnapshotCreate, o.status.ETCDSnapshotCreatePhase
	return last != nil && *last == *o.spec().ETCDSnapshotCreate &&
		(phase == rkev1.ETCDSnapshotPhaseFinished || phase == rkev1.ETCDSnapshotPhaseFailed)
}

// heldUp is why a snapshot cannot be taken now, empty when it can.
func (o snapshotCreation) heldUp() string {
	switch {
	case o.otherRuns() != "":
		return o.otherRuns()
	case !o.initialized(), !conditions.IsTrue(o.status.Conditions, rkev1.ConditionBootstrapped):
		return "but the cluster is not up"
	case len(o.collect(isEtcd, isLive, (*machine).isInterrupted)) > 0:
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
		work := o.node(m).SnapshotCreateWork(o.attempt(), render.InS3(o.spec()))
		tasks = append(tasks, task{m: m, plan: o.withWork(m, work), attempts: commandAttempts})
	}
	if v := o.allAtOnce("Started", "waiting for a snapshot on", "no snapshot could be taken on", tasks); v.stop {
		return v
	}
	o.status.ETCDSnapshotCreatePhase = rkev1.ETCDSnapshotPhaseRestartCluster
	return o.next("taken")
}

// givePlansBack ends when the etcd machines have their desired plans. It ignores changes that wait for their rollout.
// In a cluster that the user has paused, it ends at once, because machines get no plans. The same holds when a restored
// configuration waits for its restore.
func (o snapshotCreation) givePlansBack() verdict {
	waiting := restore{newOperation(o.pass, kindRestore)}
	if !o.s.Cluster.Paused && !waiting.holdsConfiguration() {
		stopped, wait := o.reconcile("etcd")
		if wait != nil && !wait.isForRollout() {
			return o.awaitStep("RestartCluster: "+stopped, "the snapshot was taken; "+wait.Message, wait)
		}
	}
	o.status.ETCDSnapshotCreatePhase = rkev1.ETCDSnapshotPhaseFinished
	return o.succeed("")
}
