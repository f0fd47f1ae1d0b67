package planner

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// experienced is the status of a control plane with a past.
func experienced() rkev1.RKEControlPlaneStatus {
	return rkev1.RKEControlPlaneStatus{
		ObservedGeneration: 7, ConfigGeneration: 2, CertificateRotationGeneration: 3,
		ETCDSnapshotRestore:      &rkev1.ETCDSnapshotRestore{Name: "s", Generation: 2},
		ETCDSnapshotRestorePhase: rkev1.ETCDSnapshotPhaseFinished,
		Operations: []rkev1.OperationRecord{{Name: "restore", Attempt: 4,
			State: rkev1.OperationStateSucceeded}},
		Conditions: []rkev1.GenericCondition{{Type: rkev1.ConditionReady, Status: "True"}},
	}
}

// forgotten are the fields of a status that can be rebuilt from other objects.
var forgotten = []string{"AppliedSpec", "Conditions", "Ready", "ObservedGeneration", "AgentConnected", "Initialized",
	"Initialization", "Ticket"}

// Every field that is not in forgotten is remembered, including new fields: the author of a new field decides.
func TestMemory_HoldsEveryFieldThatNobodyCanFindOutAgain(t *testing.T) {
	var full, none rkev1.RKEControlPlaneStatus
	fill(t, reflect.ValueOf(&full).Elem())
	kept := memory(&full)
	for i, field := range reflect.VisibleFields(reflect.TypeFor[rkev1.RKEControlPlaneStatus]()) {
		want := reflect.ValueOf(full).Field(i).Interface()
		if slices.Contains(forgotten, field.Name) {
			want = reflect.ValueOf(none).Field(i).Interface()
		}
		if diff := cmp.Diff(want, reflect.ValueOf(kept).Field(i).Interface()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field.Name, diff)
		}
	}
	full = rkev1.RKEControlPlaneStatus{}
	if err := json.Unmarshal([]byte(Memory(kept)), &full); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kept, full); diff != "" {
		t.Errorf("as text (-want +got):\n%s", diff)
	}
}

// fill sets every field to some value, down to one level.
func fill(t *testing.T, value reflect.Value) {
	t.Helper()
	switch value.Kind() {
	case reflect.Struct:
		for _, field := range value.Fields() {
			if field.CanSet() && field.Kind() != reflect.Struct {
				fill(t, field)
			}
		}
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
	case reflect.String:
		value.SetString("x")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(3)
	default:
		t.Fatalf("fill a %s", value.Kind())
	}
}

func TestMemory_OutlivesTheLossOfTheStatus(t *testing.T) {
	kept := Memory(experienced())
	moved := &rkev1.RKEControlPlane{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{rkev1.MemoryAnnotation: kept}}}
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
	status := rkev1.RKEControlPlaneStatus{ObservedGeneration: 1, Initialized: true,
		AppliedSpec: &rkev1.RKEControlPlaneSpec{ClusterName: "demo"}}
	if got := Memory(status); got != "" {
		t.Errorf("a cluster without operations remembers %s", got)
	}
}
