package planner

import (
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

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
	return ready == nil || ready.Status != rkev1.ConditionTrue && !(&Wait{Reason: Reason(ready.Reason)}).forItsRollOut()
}
