package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// experienced is the status of a control plane with a past.
func experienced() rkev1.RKEControlPlaneStatus {
	return rkev1.RKEControlPlaneStatus{
		ObservedGeneration: 7, ConfigGeneration: 2, CertificateRotationGeneration: 3,
		ETCDSnapshotRestore: &rkev1.ETCDSnapshotRestore{Name: "s", Generation: 2}, ETCDSnapshotRestorePhase: rkev1.ETCDSnapshotPhaseFinished,
		Operations: []rkev1.OperationRecord{{Name: "restore", Attempt: 4, State: rkev1.OperationStateSucceeded}},
		Conditions: []rkev1.GenericCondition{{Type: rkev1.ConditionReady, Status: "True"}},
	}
}

func TestMemory_OutlivesTheLossOfTheStatus(t *testing.T) {
	kept := Memory(experienced())
	moved := &rkev1.RKEControlPlane{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.MemoryAnnotation: kept}}}
	want := experienced()
	want.ObservedGeneration, want.Conditions = 0, nil
	if diff := cmp.Diff(want, Recall(moved)); diff != "" {
		t.Errorf("recalled (-want +got):\n%s", diff)
	}
	if again := Memory(Recall(moved)); again != kept {
		t.Errorf("what was recalled is remembered as %s, not as %s", again, kept)
	}
}

func TestMemory_StatusThatWasWrittenIsBelieved(t *testing.T) {
	cp := &rkev1.RKEControlPlane{Status: rkev1.RKEControlPlaneStatus{ObservedGeneration: 1}}
	cp.Annotations = map[string]string{rkev1.MemoryAnnotation: Memory(experienced())}
	if got := Recall(cp); got.ConfigGeneration != 0 {
		t.Errorf("the annotation was believed instead of the status: %+v", got)
	}
}

func TestMemory_NewClusterHasNone(t *testing.T) {
	status := rkev1.RKEControlPlaneStatus{ObservedGeneration: 1, Initialized: true, AppliedSpec: &rkev1.RKEControlPlaneSpec{ClusterName: "demo"}}
	if got := Memory(status); got != "" {
		t.Errorf("a cluster without operations remembers %s", got)
	}
}
