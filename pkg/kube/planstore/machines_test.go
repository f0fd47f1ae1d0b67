package planstore

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// machineAPI is one Machine behind a client that requires the current resource version.
type machineAPI struct {
	live    *clusterv1.Machine
	patches []string
	updates int
	gets    int
	err     error
}

func (a *machineAPI) Get(string, string, metav1.GetOptions) (*clusterv1.Machine, error) {
	a.gets++
	return a.live.DeepCopy(), nil
}

func (a *machineAPI) UpdateStatus(m *clusterv1.Machine) (*clusterv1.Machine, error) {
	a.updates++
	if a.err != nil {
		return nil, a.err
	}
	if m.ResourceVersion != a.live.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, m.Name, errors.New("modified"))
	}
	a.live = m.DeepCopy()
	a.live.ResourceVersion += "0"
	return a.live.DeepCopy(), nil
}

func (a *machineAPI) Patch(_, _ string, pt types.PatchType, data []byte, _ ...string) (*clusterv1.Machine, error) {
	if pt != types.MergePatchType {
		return nil, errors.New("want a merge patch")
	}
	a.patches = append(a.patches, string(data))
	return a.live.DeepCopy(), a.err
}

func machineObject(version string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u",
		ResourceVersion: version, Generation: 3}}
}

func TestMachines_MarksAreASeparatePatch(t *testing.T) {
	a := &machineAPI{live: machineObject("1")}
	marks := planner.Marks{InitNode: true, JoinURL: "https://1.2.3.4:6443", RenderVersion: "1",
		Version: "v1.36.3+rke2r1"}
	if _, err := NewMachines(a).Mark(machineObject("1"), marks); err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"annotations":{"drover.io/found":null,"drover.io/machine-uid":"u","drover.io/render-version":"1","rke.cattle.io/join-url":"https://1.2.3.4:6443","rke.cattle.io/joined-to":null},` +
		`"labels":{"rke.cattle.io/init-node":"true"},"uid":"u"},"spec":{"version":"v1.36.3+rke2r1"}}`
	if diff := cmp.Diff([]string{want}, a.patches); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	var body struct {
		Metadata metav1.ObjectMeta
		Spec     clusterv1.MachineSpec
	}
	if err := json.Unmarshal([]byte(a.patches[0]), &body); err != nil {
		t.Fatal(err)
	}
	if got := ReadMarks(&clusterv1.Machine{ObjectMeta: body.Metadata, Spec: body.Spec}); got != marks {
		t.Errorf("read back are %+v", got)
	}
	moved := machineObject("1")
	moved.Annotations = map[string]string{rkev1.MachineUIDAnnotation: "first"}
	if _, err := NewMachines(a).Mark(moved, marks); err != nil {
		t.Fatal(err)
	}
	if want = strings.ReplaceAll(want, `"drover.io/machine-uid":"u"`,
		`"drover.io/machine-uid":"first"`); a.patches[1] != want {
		t.Errorf("a moved machine would have another UID on its node: %s", a.patches[1])
	}
	a.err = errors.New("refused")
	if _, err := NewMachines(a).Mark(machineObject("1"), marks); !errors.Is(err, a.err) {
		t.Errorf("error is %v", err)
	}
}

var waiting = planner.Condition{Status: corev1.ConditionUnknown, Reason: "Waiting", Message: "waiting for the agent"}

//nolint:staticcheck // the second list is deprecated
func TestMachines_ConditionGoesIntoBothLists(t *testing.T) {
	a := &machineAPI{live: machineObject("1")}
	s := NewMachines(a)
	stored, err := s.SetCondition(machineObject("1"), "Reconciled", waiting, noon)
	if err != nil {
		t.Fatal(err)
	}
	stamp := metav1.NewTime(noon)
	want := clusterv1.MachineStatus{
		Conditions: []metav1.Condition{{Type: "Reconciled", Status: "Unknown", Reason: "Waiting",
			Message: "waiting for the agent", ObservedGeneration: 3, LastTransitionTime: stamp}},
		Deprecated: &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{
			Conditions: clusterv1.Conditions{
				{Type: "Reconciled", Status: "Unknown", Reason: "Waiting", Message: "waiting for the agent",
					LastTransitionTime: stamp},
			}}},
	}
	if diff := cmp.Diff(want, stored.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if got := ReadCondition(stored, "Reconciled"); got != waiting {
		t.Errorf("read back is %+v", got)
	}
	if again, err := s.SetCondition(stored, "Reconciled", waiting, noon); again != nil || err != nil || a.updates != 1 {
		t.Errorf("%d writes, error %v", a.updates, err)
	}
	failed := planner.Condition{Status: corev1.ConditionFalse, Reason: "Error", Message: "no"}
	stored, err = s.SetCondition(stored, "Reconciled", failed, noon)
	if err != nil {
		t.Fatal(err)
	}
	if got := stored.Status.Deprecated.V1Beta1.Conditions; len(got) != 1 ||
		got[0].Severity != clusterv1.ConditionSeverityError || got[0].Status != "False" {
		t.Errorf("deprecated list is %+v", got)
	}
}

// Two writers that share a store never conflict, although their caches lack each other's writes.
func TestMachines_OwnWritesAreNoConflict(t *testing.T) {
	a := &machineAPI{live: machineObject("1")}
	s := NewMachines(a)
	cached := machineObject("1")
	for _, kind := range []string{"Reconciled", "PlanApplied"} {
		if _, err := s.SetCondition(cached, kind, waiting, noon); err != nil {
			t.Fatal(err)
		}
	}
	if a.updates != 2 || a.gets != 0 || len(a.live.Status.Conditions) != 2 {
		t.Errorf("%d updates, %d reads, conditions %v", a.updates, a.gets, a.live.Status.Conditions)
	}
}

func TestMachines_AfterAConflictTheMachineIsReread(t *testing.T) {
	a := &machineAPI{live: machineObject("5")}
	if _, err := NewMachines(a).SetCondition(machineObject("1"), "Reconciled", waiting, noon); err != nil {
		t.Fatal(err)
	}
	if a.updates != 2 || a.gets != 1 || len(a.live.Status.Conditions) != 1 {
		t.Errorf("%d updates, %d reads, conditions %v", a.updates, a.gets, a.live.Status.Conditions)
	}
	other := &machineAPI{live: machineObject("5")}
	other.live.UID = "another"
	if _, err := NewMachines(other).SetCondition(machineObject("1"), "Reconciled", waiting, noon); err != nil ||
		len(other.live.Status.Conditions) != 0 {
		t.Errorf("a Machine of the same name was written, error %v", err)
	}
	refused := &machineAPI{live: machineObject("1"), err: errors.New("refused")}
	if _, err := NewMachines(refused).SetCondition(machineObject("1"), "Reconciled", waiting, noon); !errors.Is(err,
		refused.err) || refused.updates != 1 {
		t.Errorf("error is %v after %d updates", err, refused.updates)
	}
}

// A write is remembered until caches have had time to show it, and then dropped even without further writes.
func TestMachines_RemembersWritesBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMachines(&machineAPI{})
		known := func(uid types.UID) bool { return s.newest(machineOf(uid, "1")).ResourceVersion == "2" }
		size := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.stored)
		}
		for i := range 5000 { // as during the upgrade of a large fleet
			s.remember(machineOf(types.UID(strconv.Itoa(i)), "2"))
		}
		time.Sleep(shownAfter / 2)
		s.remember(machineOf("later", "2"))
		time.Sleep(shownAfter/2 - time.Millisecond)
		if !known("0") || !known("4999") || !known("later") {
			t.Error("a write is forgotten too early for the caches")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if known("0") || size() != 1 {
			t.Errorf("%d writes are remembered, want the later one", size())
		}
		time.Sleep(2 * shownAfter)
		synctest.Wait()
		if size() != 0 {
			t.Errorf("%d writes are remembered after a long pause", size())
		}
		s.remember(machineOf("again", "2"))
		time.Sleep(2 * shownAfter)
		synctest.Wait()
		if size() != 0 {
			t.Error("later writes are never forgotten")
		}
	})
}

// machineOf returns a Machine with a UID and a version.
func machineOf(uid types.UID, version string) *clusterv1.Machine {
	m := machineObject(version)
	m.UID = uid
	return m
}

// A cached object replaces a remembered write once it is at least as new.
func TestMachines_FreshCachesAreUsed(t *testing.T) {
	for version, shown := range map[string]string{"1": "2", "2": "cached", "3": "cached"} {
		s := NewMachines(&machineAPI{})
		s.remember(machineOf("u", "2"))
		cached := machineOf("u", version)
		got := s.newest(cached)
		if (got == cached) != (shown == "cached") || len(s.stored) == 0 != (shown == "cached") {
			t.Errorf("the cache shows version %s: got version %s, %d remembered", version, got.ResourceVersion,
				len(s.stored))
		}
	}
}

// A failed write drops the remembered version, because the stored one is unknown.
func TestMachines_AFailedWriteIsForgotten(t *testing.T) {
	a := &machineAPI{live: machineObject("1")}
	s := NewMachines(a)
	if _, err := s.SetCondition(machineObject("1"), "Reconciled", waiting, noon); err != nil || len(s.stored) != 1 {
		t.Fatalf("%d remembered, error %v", len(s.stored), err)
	}
	a.err = errors.New("refused")
	if _, err := s.SetCondition(machineObject("1"), "PlanApplied", waiting, noon); err == nil || len(s.stored) != 0 {
		t.Errorf("%d remembered after error %v", len(s.stored), err)
	}
}
