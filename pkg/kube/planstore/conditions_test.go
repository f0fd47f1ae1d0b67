package planstore

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "github.com/evanphx/json-patch"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/planner"
)

// machineAPI is one Machine behind a client that carries out patches as the API server does.
type machineAPI struct {
	live    *clusterv1.Machine
	patches []string
	gets    int
	// err is the answer to every patch.
	err error
	// meanwhile changes the Machine before a patch arrives.
	meanwhile func(*clusterv1.Machine)
}

func (a *machineAPI) Get(string, string, metav1.GetOptions) (*clusterv1.Machine, error) {
	a.gets++
	return a.live.DeepCopy(), nil
}

func (a *machineAPI) Patch(_, _ string, pt types.PatchType, data []byte, sub ...string) (*clusterv1.Machine, error) {
	a.patches = append(a.patches, string(data))
	if pt == types.MergePatchType || a.err != nil {
		return a.live.DeepCopy(), a.err
	}
	if pt != types.JSONPatchType || !slices.Equal(sub, []string{"status"}) {
		return nil, errors.New("want a JSON patch of the status")
	}
	if a.meanwhile != nil {
		a.meanwhile(a.live)
	}
	before, err := json.Marshal(a.live)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
			err.Error(), 0, false)
	}
	stored := &clusterv1.Machine{}
	if err := json.Unmarshal(after, stored); err != nil {
		return nil, err
	}
	types := map[string]bool{}
	for _, c := range stored.Status.Conditions {
		if types[c.Type] {
			return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Machine"}, a.live.Name,
				field.ErrorList{field.Duplicate(field.NewPath("status", "conditions"), c.Type)})
		}
		types[c.Type] = true
	}
	a.live = next(stored)
	return a.live.DeepCopy(), nil
}

// next gives a Machine a new version.
func next(m *clusterv1.Machine) *clusterv1.Machine {
	version, err := strconv.Atoi(m.ResourceVersion)
	if err != nil {
		panic(err)
	}
	m.ResourceVersion = strconv.Itoa(version + 1)
	return m
}

// deprecatedOf returns the deprecated list of a Machine, and makes it if it is missing.
//
//nolint:staticcheck // the second list is deprecated
func deprecatedOf(m *clusterv1.Machine) *clusterv1.Conditions {
	if m.Status.Deprecated == nil {
		m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{}}
	}
	return &m.Status.Deprecated.V1Beta1.Conditions
}

// reports writes conditions as Cluster API does: into both lists, at any place.
func reports(m *clusterv1.Machine, first bool, kinds ...string) {
	old := deprecatedOf(m)
	for _, kind := range kinds {
		place, oldPlace := len(m.Status.Conditions), len(*old)
		if first {
			place, oldPlace = 0, 0
		}
		m.Status.Conditions = slices.Insert(m.Status.Conditions, place, metav1.Condition{Type: kind, Status: "True",
			Reason: kind, LastTransitionTime: metav1.NewTime(noon)})
		//nolint:staticcheck // the second list is deprecated
		*old = slices.Insert(*old, oldPlace, clusterv1.Condition{Type: clusterv1.ConditionType(kind), Status: "True",
			LastTransitionTime: metav1.NewTime(noon)})
	}
	next(m)
}

// typesOf returns the types of both lists.
func typesOf(m *clusterv1.Machine) [2][]string {
	var out [2][]string
	for _, c := range m.Status.Conditions {
		out[0] = append(out[0], c.Type)
	}
	for _, c := range *deprecatedOf(m.DeepCopy()) {
		out[1] = append(out[1], string(c.Type))
	}
	return out
}

func both(kinds ...string) [2][]string { return [2][]string{kinds, kinds} }

var (
	waiting = planner.Condition{Status: corev1.ConditionUnknown, Reason: "Waiting", Message: "waiting for the agent"}
	applied = planner.Condition{Status: corev1.ConditionTrue, Reason: "PlanApplied"}
)

func TestMachines_ConditionGoesIntoBothLists(t *testing.T) {
	a := &machineAPI{live: machineObject("1")}
	s := NewMachines(a)
	stored, err := s.SetConditions(machineObject("1"), Conditions{"Reconciled": waiting}, noon)
	if err != nil {
		t.Fatal(err)
	}
	stamp := metav1.NewTime(noon.Local())
	want := clusterv1.Machine{}
	want.Status.Conditions = []metav1.Condition{{Type: "Reconciled", Status: "Unknown", Reason: "Waiting",
		Message: "waiting for the agent", ObservedGeneration: 3, LastTransitionTime: stamp}}
	//nolint:staticcheck // the second list is deprecated
	*deprecatedOf(&want) = clusterv1.Conditions{{Type: "Reconciled", Status: "Unknown", Reason: "Waiting",
		Message: "waiting for the agent", LastTransitionTime: stamp}}
	if diff := cmp.Diff(want.Status, stored.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if got := ReadCondition(stored, "Reconciled"); got != waiting {
		t.Errorf("read back is %+v", got)
	}
	again, err := s.SetConditions(stored, Conditions{"Reconciled": waiting}, noon)
	if again != nil || err != nil || len(a.patches) != 1 {
		t.Errorf("%d writes, error %v", len(a.patches), err)
	}
	failed := planner.Condition{Status: corev1.ConditionFalse, Reason: "Error", Message: "no"}
	stored, err = s.SetConditions(stored, Conditions{"Reconciled": failed}, noon)
	if err != nil {
		t.Fatal(err)
	}
	if got := *deprecatedOf(stored); len(got) != 1 ||
		got[0].Severity != clusterv1.ConditionSeverityError || got[0].Status != "False" {
		t.Errorf("deprecated list is %+v", got)
	}
}

// Several conditions of one Machine are one write.
func TestMachines_ConditionsAreOnePatch(t *testing.T) {
	a := &machineAPI{live: machineObject("1")}
	reports(a.live, false, "Ready")
	cached := a.live.DeepCopy()
	both2 := Conditions{"Reconciled": waiting, "PlanApplied": applied}
	if _, err := NewMachines(a).SetConditions(cached, both2, noon); err != nil {
		t.Fatal(err)
	}
	want := `[{"op":"test","path":"/metadata/uid","value":"u"},` +
		`{"op":"add","path":"/status/conditions/-","value":{"lastTransitionTime":"2026-09-01T12:00:00Z","message":"",` +
		`"observedGeneration":3,"reason":"PlanApplied","status":"True","type":"PlanApplied"}},` +
		`{"op":"add","path":"/status/conditions/-","value":{"lastTransitionTime":"2026-09-01T12:00:00Z",` +
		`"message":"waiting for the agent","observedGeneration":3,"reason":"Waiting","status":"Unknown",` +
		`"type":"Reconciled"}},` +
		`{"op":"add","path":"/status/deprecated/v1beta1/conditions/-","value":{` +
		`"lastTransitionTime":"2026-09-01T12:00:00Z","reason":"PlanApplied","status":"True","type":"PlanApplied"}},` +
		`{"op":"add","path":"/status/deprecated/v1beta1/conditions/-","value":{` +
		`"lastTransitionTime":"2026-09-01T12:00:00Z","message":"waiting for the agent","reason":"Waiting",` +
		`"status":"Unknown","type":"Reconciled"}}]`
	if diff := cmp.Diff([]string{want}, a.patches); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(both("Ready", "PlanApplied", "Reconciled"), typesOf(a.live)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// Cluster API writes the status of a Machine at any time. The result is the same, and mostly without a second read.
func TestMachines_OtherWritersOfTheStatus(t *testing.T) {
	again := planner.Condition{Status: corev1.ConditionUnknown, Reason: "Waiting", Message: "waiting for probes"}
	for name, tc := range map[string]struct {
		// cached is the Machine in the cache; meanwhile happens to it before the patch arrives.
		cached, meanwhile func(*clusterv1.Machine)
		want              [2][]string
		wantGets          int
	}{
		"no other client writes": {want: both("Reconciled")},
		"the lists of a new Machine appear": {
			meanwhile: func(m *clusterv1.Machine) { reports(m, false, "Ready") },
			want:      both("Ready", "Reconciled"), wantGets: 1,
		},
		"only the deprecated list is missing": {
			cached: func(m *clusterv1.Machine) {
				reports(m, false, "Ready")
				*deprecatedOf(m) = nil
			},
			want: [2][]string{{"Ready", "Reconciled"}, {"Reconciled"}},
		},
		"only the other list is missing": {
			cached: func(m *clusterv1.Machine) {
				reports(m, false, "Ready")
				m.Status.Conditions = nil
			},
			want: [2][]string{{"Reconciled"}, {"Ready", "Reconciled"}},
		},
		"another condition is appended": {
			cached:    func(m *clusterv1.Machine) { reports(m, false, "Ready") },
			meanwhile: func(m *clusterv1.Machine) { reports(m, false, "NodeReady") },
			want:      both("Ready", "NodeReady", "Reconciled"),
		},
		"another condition is appended after ours": {
			cached:    func(m *clusterv1.Machine) { reports(m, false, "Ready", "Reconciled") },
			meanwhile: func(m *clusterv1.Machine) { reports(m, false, "NodeReady") },
			want:      both("Ready", "Reconciled", "NodeReady"),
		},
		"another condition moves ours": {
			cached:    func(m *clusterv1.Machine) { reports(m, false, "Ready", "Reconciled") },
			meanwhile: func(m *clusterv1.Machine) { reports(m, true, "Available") },
			want:      both("Available", "Ready", "Reconciled"), wantGets: 1,
		},
		"another handler has appended ours": {
			cached:    func(m *clusterv1.Machine) { reports(m, false, "Ready") },
			meanwhile: func(m *clusterv1.Machine) { reports(m, false, "Reconciled") },
			want:      both("Ready", "Reconciled"), wantGets: 1,
		},
		"the lists become shorter": {
			cached: func(m *clusterv1.Machine) { reports(m, false, "Ready", "Reconciled") },
			meanwhile: func(m *clusterv1.Machine) {
				m.Status = clusterv1.MachineStatus{}
				reports(m, false, "Ready")
			},
			want: both("Ready", "Reconciled"), wantGets: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &machineAPI{live: machineObject("1")}
			if tc.cached != nil {
				tc.cached(a.live)
			}
			cached := a.live.DeepCopy()
			a.meanwhile = func(m *clusterv1.Machine) {
				if a.meanwhile = nil; tc.meanwhile != nil {
					tc.meanwhile(m)
				}
			}
			stored, err := NewMachines(a).SetConditions(cached, Conditions{"Reconciled": again}, noon)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, typesOf(a.live)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if got := ReadCondition(stored, "Reconciled"); got != again || a.gets != tc.wantGets {
				t.Errorf("condition %+v after %d reads, want %d", got, a.gets, tc.wantGets)
			}
		})
	}
}

// Two writers that share a store never conflict, although their caches lack each other's writes.
func TestMachines_OwnWritesAreNoConflict(t *testing.T) {
	a := &machineAPI{live: machineObject("1")}
	s := NewMachines(a)
	cached := machineObject("1")
	for _, kind := range []string{"Reconciled", "PlanApplied"} {
		if _, err := s.SetConditions(cached, Conditions{kind: waiting}, noon); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.patches) != 2 || a.gets != 0 || len(a.live.Status.Conditions) != 2 {
		t.Errorf("%d patches, %d reads, conditions %v", len(a.patches), a.gets, a.live.Status.Conditions)
	}
}

func TestMachines_RefusedConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		edit         func(*machineAPI)
		wantConflict bool
		wantPatches  int
	}{
		"a Machine whose conditions keep moving is a conflict": {
			edit: func(a *machineAPI) {
				a.meanwhile = func(m *clusterv1.Machine) { reports(m, true, "C"+m.ResourceVersion) }
			},
			wantConflict: true, wantPatches: 2,
		},
		"a refusal is an error": {
			edit:        func(a *machineAPI) { a.err = errors.New("refused") },
			wantPatches: 1,
		},
		"an invalid condition is no conflict": {
			edit: func(a *machineAPI) {
				a.err = apierrors.NewInvalid(schema.GroupKind{Kind: "Machine"}, "m",
					field.ErrorList{field.TooLong(field.NewPath("status", "conditions"), "", 1)})
			},
			wantPatches: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &machineAPI{live: machineObject("1")}
			s := NewMachines(a)
			reports(a.live, false, "Reconciled")
			cached := a.live.DeepCopy()
			tc.edit(a)
			s.remember(cached)
			_, err := s.SetConditions(cached, Conditions{"Reconciled": waiting}, noon)
			if err == nil || apierrors.IsConflict(err) != tc.wantConflict || len(a.patches) != tc.wantPatches {
				t.Errorf("error %v after %d patches", err, len(a.patches))
			}
			if len(s.stored) != 0 {
				t.Error("a failed write leaves a remembered version, although the stored one is unknown")
			}
		})
	}
}

func TestMachines_AnotherMachineOfTheSameNameIsNotWritten(t *testing.T) {
	a := &machineAPI{live: machineObject("5")}
	a.live.UID = "another"
	reports(a.live, false, "Ready", "Reconciled")
	before := a.live.DeepCopy()
	cached := machineObject("1")
	reports(cached, false, "Ready", "Reconciled")
	stored, err := NewMachines(a).SetConditions(cached, Conditions{"Reconciled": waiting}, noon)
	if stored != nil || err != nil {
		t.Errorf("stored %v, error %v", stored, err)
	}
	if diff := cmp.Diff(before, a.live); diff != "" {
		t.Errorf("the other Machine was written (-want +got):\n%s", diff)
	}
}

// A proposed condition joins the next write of its Machine, or is written after a moment.
func TestMachines_ProposedConditions(t *testing.T) {
	propose := func(want Conditions) func(*Machines, *clusterv1.Machine, time.Time) (time.Duration, error) {
		return func(s *Machines, m *clusterv1.Machine, now time.Time) (time.Duration, error) {
			return s.Propose(m, want, now)
		}
	}
	set := func(want Conditions) func(*Machines, *clusterv1.Machine, time.Time) (time.Duration, error) {
		return func(s *Machines, m *clusterv1.Machine, now time.Time) (time.Duration, error) {
			_, err := s.SetConditions(m, want, now)
			return 0, err
		}
	}
	proposed, reconciled := propose(Conditions{"PlanApplied": applied}), set(Conditions{"Reconciled": waiting})
	failed := planner.Condition{Status: corev1.ConditionFalse, Reason: "Error"}
	type step struct {
		at          time.Duration
		do          func(*Machines, *clusterv1.Machine, time.Time) (time.Duration, error)
		wantLeft    time.Duration
		wantPatches int
	}
	for name, tc := range map[string]struct {
		steps       []step
		wantApplied planner.Condition
	}{
		"it joins another write": {
			steps: []step{{do: proposed, wantLeft: ProposalWaits}, {do: reconciled, wantPatches: 1},
				{at: ProposalWaits, do: proposed, wantPatches: 1}},
			wantApplied: applied,
		},
		"it is written alone": {
			steps: []step{{do: proposed, wantLeft: ProposalWaits}, {at: ProposalWaits / 4, do: proposed,
				wantLeft: ProposalWaits * 3 / 4}, {at: ProposalWaits, do: proposed, wantPatches: 1},
				{at: ProposalWaits, do: reconciled, wantPatches: 2}},
			wantApplied: applied,
		},
		"it is withdrawn": {
			steps: []step{{do: proposed, wantLeft: ProposalWaits}, {do: propose(nil)},
				{do: reconciled, wantPatches: 1}},
		},
		"a later write of the same condition wins": {
			steps: []step{{do: proposed, wantLeft: ProposalWaits},
				{do: set(Conditions{"PlanApplied": failed}), wantPatches: 1}, {do: reconciled, wantPatches: 2}},
			wantApplied: failed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &machineAPI{live: machineObject("1")}
			s, cached := NewMachines(a), a.live.DeepCopy()
			for i, step := range tc.steps {
				left, err := step.do(s, cached, noon.Add(step.at))
				if err != nil || left != step.wantLeft || len(a.patches) != step.wantPatches {
					t.Errorf("step %d: %s left after %d patches, error %v", i, left, len(a.patches), err)
				}
			}
			if got := ReadCondition(a.live, "PlanApplied"); got != tc.wantApplied {
				t.Errorf("the condition is %+v", got)
			}
			if len(s.proposed) != 0 {
				t.Errorf("%d proposals are left", len(s.proposed))
			}
		})
	}
}

// A proposal that is never repeated is forgotten, as when its Machine is deleted.
func TestMachines_ProposalsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewMachines(&machineAPI{})
		for i := range 1000 {
			m := machineOf(types.UID(strconv.Itoa(i)), "1")
			if left, err := s.Propose(m, Conditions{"PlanApplied": applied}, time.Now()); left == 0 || err != nil {
				t.Fatalf("%s left, error %v", left, err)
			}
		}
		time.Sleep(2 * shownAfter)
		synctest.Wait()
		if len(s.proposed) != 0 {
			t.Errorf("%d proposals are remembered", len(s.proposed))
		}
	})
}

func TestMachines_ConditionKeepsItsTimeWithinAStatus(t *testing.T) {
	a := &machineAPI{live: machineObject("1")}
	s := NewMachines(a)
	if _, err := s.SetConditions(a.live, Conditions{"Reconciled": waiting}, noon); err != nil {
		t.Fatal(err)
	}
	next := planner.Condition{Status: corev1.ConditionUnknown, Reason: "Waiting", Message: "waiting for probes"}
	stored, err := s.SetConditions(a.live, Conditions{"Reconciled": next}, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if got := stored.Status.Conditions[0].LastTransitionTime; !got.Time.Equal(noon) {
		t.Errorf("the transition is at %s", got)
	}
}
