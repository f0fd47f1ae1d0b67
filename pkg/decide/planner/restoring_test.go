package planner

import (
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Nodes may be down from the first phase of a restore until it has succeeded, or until the machines run again after a
// failure.
func TestRestoring(t *testing.T) {
	failed := rkev1.ETCDSnapshotPhaseFailed
	for name, tc := range map[string]struct {
		phase         rkev1.ETCDSnapshotPhase
		step          string
		ready, reason string
		want          bool
	}{
		"none": {},
		"begun": {phase: rkev1.ETCDSnapshotPhaseStarted, step: "Started",
			ready: "Unknown", want: true},
		"starting the others": {phase: rkev1.ETCDSnapshotPhaseInitialRestartCluster,
			step: "InitialRestartCluster: etcd", ready: "Unknown", want: true},
		"finished": {phase: rkev1.ETCDSnapshotPhaseFinished,
			step: "RestartCluster: worker", ready: "True"},
		"failed before it stopped anything": {phase: failed, step: "Started", ready: "False"},
		"failed without a record":           {phase: failed, ready: "False"},
		"failed, and the cluster is stopped": {phase: failed, step: "Restore: machine", ready: "False",
			reason: string(ReasonOperationFailed), want: true},
		"failed while machines started": {phase: failed, step: "InitialRestartCluster: etcd",
			ready: "Unknown", reason: "ConfiguringNodes", want: true},
		"failed, and nothing is said of readiness": {phase: failed, step: "InitialRestartCluster: etcd", want: true},
		"failed, and all run again":                {phase: failed, step: "InitialRestartCluster: etcd", ready: "True"},
		"failed, and all but lost workers run": {phase: failed, step: "InitialRestartCluster: worker",
			ready: "Unknown", reason: string(ReasonLeftOut)},
	} {
		t.Run(name, func(t *testing.T) {
			cp := &rkev1.RKEControlPlane{}
			cp.Status.ETCDSnapshotRestorePhase = tc.phase
			if tc.step != "" {
				cp.Status.Operations = []rkev1.OperationRecord{{Name: kindCreate.Record, Step: "a"},
					{Name: kindRestore.Record, Step: tc.step}}
			}
			if tc.ready != "" {
				cp.Status.Conditions = []rkev1.GenericCondition{{Type: "Ready", Status: tc.ready, Reason: tc.reason}}
			}
			if got := Restoring(cp); got != tc.want {
				t.Errorf("restoring is %v", got)
			}
		})
	}
}
