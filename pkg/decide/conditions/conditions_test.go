package conditions

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

var (
	noon  = time.Date(2026, 8, 1, 12, 0, 0, 123, time.FixedZone("east", 3600))
	later = noon.Add(time.Minute)
)

const (
	noonText  = "2026-08-01T11:00:00Z"
	laterText = "2026-08-01T11:01:00Z"
)

func TestSet(t *testing.T) {
	ready := Condition{Type: "Ready", Status: "True", Reason: "Ok", Message: "Cluster c is ready"}
	for name, tc := range map[string]struct {
		list        []rkev1.GenericCondition
		set         Condition
		want        []rkev1.GenericCondition
		wantChanged bool
	}{
		"a new condition is appended": {
			list: []rkev1.GenericCondition{{Type: "Other", Status: "False"}},
			set:  ready,
			want: []rkev1.GenericCondition{
				{Type: "Other", Status: "False"},
				{Type: "Ready", Status: "True", Reason: "Ok", Message: "Cluster c is ready", LastUpdateTime: laterText,
					LastTransitionTime: laterText},
			},
			wantChanged: true,
		},
		"the same condition changes no byte": {
			list: []rkev1.GenericCondition{{Type: "Ready", Status: "True", Reason: "Ok", Message: "Cluster c is ready",
				LastUpdateTime: noonText, LastTransitionTime: noonText}},
			set: ready,
			want: []rkev1.GenericCondition{{Type: "Ready", Status: "True", Reason: "Ok", Message: "Cluster c is ready",
				LastUpdateTime: noonText, LastTransitionTime: noonText}},
		},
		"a new message is an update, not a transition": {
			list: []rkev1.GenericCondition{{Type: "Ready", Status: "True", Message: "Old",
				LastUpdateTime: noonText, LastTransitionTime: noonText}},
			set: ready,
			want: []rkev1.GenericCondition{{Type: "Ready", Status: "True", Reason: "Ok",
				Message: "Cluster c is ready", LastUpdateTime: laterText, LastTransitionTime: noonText}},
			wantChanged: true,
		},
		"a new status is a transition": {
			list: []rkev1.GenericCondition{{Type: "Ready", Status: "Unknown", LastUpdateTime: noonText,
				LastTransitionTime: noonText}},
			set: ready,
			want: []rkev1.GenericCondition{{Type: "Ready", Status: "True", Reason: "Ok",
				Message: "Cluster c is ready", LastUpdateTime: laterText, LastTransitionTime: laterText}},
			wantChanged: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := Set(&tc.list, tc.set, later)
			if changed != tc.wantChanged {
				t.Errorf("changed = %v, want %v", changed, tc.wantChanged)
			}
			if diff := cmp.Diff(tc.want, tc.list); diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSameStatuses(t *testing.T) {
	list := func(of ...string) []rkev1.GenericCondition {
		var out []rkev1.GenericCondition
		for _, one := range of {
			kind, status, _ := strings.Cut(one, "=")
			out = append(out, rkev1.GenericCondition{Type: kind, Status: status, Message: strconv.Itoa(len(of))})
		}
		return out
	}
	for name, tc := range map[string]struct {
		a, b []rkev1.GenericCondition
		want bool
	}{
		"nothing":                         {want: true},
		"the same":                        {list("A=True", "B=False"), list("A=True", "B=False"), true},
		"another order":                   {list("A=True", "B=False"), list("B=False", "A=True"), true},
		"a new condition that is known":   {list("A=True"), list("A=True", "B=False"), false},
		"a new condition that is Unknown": {list("A=True"), list("A=True", "B=Unknown"), true},
		"a transition":                    {list("A=Unknown"), list("A=True"), false},
		"a transition to Unknown":         {list("A=True"), list("A=Unknown"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if SameStatuses(tc.a, tc.b) != tc.want || SameStatuses(tc.b, tc.a) != tc.want {
				t.Errorf("want %v in both directions", tc.want)
			}
		})
	}
}

// TestSetMeta_EdgeCondSettersPanicOnMetaConditions covers the conditions on which wrangler's setters panic: they have
// no lastUpdateTime.
func TestSetMeta_EdgeCondSettersPanicOnMetaConditions(t *testing.T) {
	var list []metav1.Condition
	waiting := Condition{Type: "Reconciled", Status: "Unknown", Reason: "Waiting", Message: "Waiting for machine m"}
	if !SetMeta(&list, waiting, 1, noon) {
		t.Error("the first write must be a change")
	}
	if SetMeta(&list, waiting, 1, later) {
		t.Error("the same write must not be a change")
	}
	if !SetMeta(&list, Condition{Type: "Reconciled", Status: "True"}, 2, later) {
		t.Error("a new status must be a change")
	}
	want := []metav1.Condition{{
		Type: "Reconciled", Status: metav1.ConditionTrue, Reason: "Reconciled", ObservedGeneration: 2,
		LastTransitionTime: metav1.NewTime(later.UTC().Truncate(time.Second)),
	}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if !IsTrueMeta(list, "Reconciled") || IsFalseMeta(list, "Reconciled") || IsTrueMeta(list, "Absent") ||
		IsFalseMeta(list, "Absent") {
		t.Error("predicates disagree with the list")
	}
}

func TestRemove(t *testing.T) {
	list := []rkev1.GenericCondition{{Type: "A"}, {Type: "B"}, {Type: "C"}}
	before := list
	if !Remove(&list, "B") || Remove(&list, "B") {
		t.Error("B existed before")
	}
	if diff := cmp.Diff([]rkev1.GenericCondition{{Type: "A"}, {Type: "C"}}, list); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if before[1].Type != "B" {
		t.Error("a shared list must not change")
	}
}

func TestSet_TwiceIsOnce(t *testing.T) {
	word := rapid.SampledFrom([]string{"A", "B", "C"})
	rapid.Check(t, func(t *rapid.T) {
		var list []rkev1.GenericCondition
		for range rapid.IntRange(1, 10).Draw(t, "writes") {
			c := Condition{Type: word.Draw(t, "type"), Status: word.Draw(t, "status"), Message: word.Draw(t, "message")}
			Set(&list, c, noon)
			before := cmp.Diff(nil, list)
			if Set(&list, c, later) || cmp.Diff(nil, list) != before {
				t.Fatalf("writing %v twice is not the same as once", c)
			}
			if !IsTrue(list, c.Type) && c.Status == "True" {
				t.Fatalf("%v was not written", c)
			}
		}
		if len(list) > 3 {
			t.Fatalf("a type appears twice: %v", list)
		}
	})
}
