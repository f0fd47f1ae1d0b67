package planner

import (
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// hintConfiguration is the advice when a restore fails that has brought an earlier configuration with it.
const hintConfiguration = "no machine was stopped, and none gets the restored configuration; " +
	"request a restore again, " +
	"or set the restored fields back and remove spec.rkeConfig.etcdSnapshotRestore"

// stepRestoredConfig keeps the configuration of a snapshot away from machines that run with their present data. The
// configuration comes together with the request for the restore, and its version may be older than that of the data. It
// belongs to machines that the restore has stopped.
func stepRestoredConfig(p *pass) verdict {
	o := restore{newOperation(p, kindRestore)}
	if !o.holdsConfiguration() {
		return goOn("no restored configuration waits for a restore")
	}
	if state, _ := o.state(); state == requestNew {
		message := o.Title + ": the restored configuration waits for it to begin"
		return stopFor(waitFor(ReasonOperation, message, WakeControlPlane))
	}
	return stopFor(failure(ReasonOperationFailed, o.Title+" failed: "+o.record().Message, WakeControlPlane))
}

// holdsConfiguration reports that the spec has the configuration of a snapshot whose restore has stopped nothing yet:
// it has not begun, or it has failed before that. A cluster without plans has no data.
func (o restore) holdsConfiguration() bool {
	if !configures(o.request()) || !slices.ContainsFunc(o.all(), (*machine).gotPlan) {
		return false
	}
	switch state, _ := o.state(); state {
	case requestNew:
		return true
	case requestEnded:
		return o.status.ETCDSnapshotRestorePhase == rkev1.ETCDSnapshotPhaseFailed && !o.hasStopped()
	default:
		return false
	}
}

// hasStopped reports that the last restore went beyond its checks.
func (o restore) hasStopped() bool {
	step := o.record().Step
	return step != "" && step != string(rkev1.ETCDSnapshotPhaseStarted)
}

// configures reports that a request brings the configuration of the snapshot with it.
func configures(request *rkev1.ETCDSnapshotRestore) bool {
	return request != nil && request.RestoreRKEConfig != "" && request.RestoreRKEConfig != rkev1.RestoreModeNone
}

// configurationProblem is why the spec does not have the configuration that is to be restored, empty when it has, or
// when none is.
func (o restore) configurationProblem() string {
	if !configures(o.status.ETCDSnapshotRestore) {
		return ""
	}
	if found := o.snapshot(); found != nil {
		return found.ConfigurationProblem
	}
	return "snapshot " + o.status.ETCDSnapshotRestore.Name + ", whose configuration was restored, does not exist"
}
