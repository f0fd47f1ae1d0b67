package planner

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/nodeplan"
)

// theirs makes of a cluster in order one of another manager: its plans have a file and an instruction of its own, and what it noted is on plan
// secrets alone.
func (w *world) theirs(t *testing.T) {
	t.Helper()
	for _, name := range w.names() {
		h := w.machines[name]
		p := h.state().Plan
		p.Files = append(slices.Clone(p.Files), plan.File{Path: "/etc/theirs", Content: base64.StdEncoding.EncodeToString([]byte("theirs"))})
		p.Instructions = slices.Clone(p.Instructions)
		p.Instructions[0].Env = append(slices.Clone(p.Instructions[0].Env), "THEIRS=1")
		encoded, err := nodeplan.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		h.data = maps.Clone(h.data)
		h.data[nodeplan.KeyPlan] = encoded
		h.applyPlan()
		h.probes(true)
		h.evidence, h.m.Marks = "", Marks{}
	}
	w.cp.Status.Ticket = nil
}

// adopt writes the notes of a takeover.
func (w *world) adopt(t *testing.T) {
	t.Helper()
	taken := TakeOver(w.snapshot(t))
	if len(taken.Problems) > 0 {
		t.Fatalf("problems: %q", taken.Problems)
	}
	for name, marks := range taken.Marks {
		w.machines[name].m.Marks = marks
	}
}

func TestTakeOver_TakesWhatTheirManagerNoted(t *testing.T) {
	w := rollWorld(t)
	w.theirs(t)
	w.add("w3", "worker") // has no plan yet: nothing is found
	got := TakeOver(w.snapshot(t))
	for name, marks := range got.Marks {
		if marks.RenderVersion != AsFound || !strings.Contains(marks.Found, w.machines[name].state().Checksum) {
			t.Errorf("%s: %+v", name, marks)
		}
		marks.Found = ""
		got.Marks[name] = marks
	}
	init := "https://10.0.0.10:9345"
	want := map[string]Marks{
		"s1": {InitNode: true, JoinURL: init, RenderVersion: AsFound},
		"s2": {JoinURL: "https://10.0.0.11:9345", JoinedTo: init, RenderVersion: AsFound},
		"s3": {JoinURL: "https://10.0.0.12:9345", JoinedTo: init, RenderVersion: AsFound},
	}
	for _, name := range []string{"w1", "w2"} {
		want[name] = Marks{JoinedTo: got.Marks[name].JoinedTo, RenderVersion: AsFound}
		if !strings.HasPrefix(want[name].JoinedTo, "https://10.0.0.1") {
			t.Errorf("%s joined %q", name, want[name].JoinedTo)
		}
	}
	if diff := cmp.Diff(want, got.Marks); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// What Drover has planned has its notes already.
func TestTakeOver_LeavesTheNotesOfADrover(t *testing.T) {
	w := rollWorld(t)
	if got := TakeOver(w.snapshot(t)); len(got.Marks) > 0 || len(got.Problems) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestTakeOver_BelievesNoSecondInitNode(t *testing.T) {
	w := rollWorld(t)
	w.theirs(t)
	w.machines["w1"].initLabel = true // which its node can write
	got := TakeOver(w.snapshot(t)).Problems
	if len(got) != 1 || !strings.Contains(got[0], "s1,w1") {
		t.Errorf("problems %q", got)
	}
}

func TestTakeOver_NamesAnUnreadablePlan(t *testing.T) {
	w := rollWorld(t)
	w.theirs(t)
	w.machines["w1"].report(nodeplan.KeyPlan, []byte("{"))
	got := TakeOver(w.snapshot(t)).Problems
	if len(got) != 1 || !strings.Contains(got[0], "machine w1 is unreadable") {
		t.Errorf("problems %q", got)
	}
}

// Adoption changes no plan, and neither does what nobody wished for: a newer program, or what it knows about the release.
func TestFound_PlansStayUntilSomebodyWishes(t *testing.T) {
	w := rollWorld(t)
	w.theirs(t)
	before := w.plans()
	w.adopt(t)
	d := w.run(t)
	if d.Wait != nil {
		t.Errorf("waits for %+v", d.Wait)
	}
	writes := w.writes
	w.versions = next
	if d = w.run(t); d.Wait != nil || w.writes != writes {
		t.Errorf("a cluster at rest is written to, or waits for %+v", d.Wait)
	}
	if diff := cmp.Diff(before, w.plans()); diff != "" {
		t.Errorf("plans are changed:\n%s", diff)
	}
	if status, message := w.condition(ConditionRenderVersions); status == rkev1.ConditionFalse {
		t.Errorf("condition: %s", message)
	}
	if class, _ := Assess(w.snapshot(t)).Find("w1"); class.Class != ClassNone || class.Held != "" {
		t.Errorf("w1 has to expect %+v", class)
	}
}

// A wish brings every machine a plan of ours, one after the other, with the wish as the cause, and nothing is found any more.
func TestFound_AWishBringsPlansOfOurs(t *testing.T) {
	for name, wish := range map[string]func(w *world){
		"an edit": func(w *world) { w.edit(func(spec *rkev1.RKEControlPlaneSpec) { spec.ProvisionGeneration++ }) },
		"a roll":  func(w *world) { w.command = Roll{All: w.versions.Newest()} },
	} {
		t.Run(name, func(t *testing.T) {
			w := rollWorld(t)
			w.theirs(t)
			w.adopt(t)
			w.run(t)
			wish(w)
			if class, _ := Assess(w.snapshot(t)).Find("w1"); class.Class != ClassRestart {
				t.Errorf("w1 has to expect %+v", class)
			}
			w.bringUp(t)
			for name, h := range w.machines {
				if marks := h.m.Marks; marks.RenderVersion != w.versions.Newest() || marks.Found != "" || strings.Contains(string(h.data[nodeplan.KeyPlan]), "THEIRS=1") {
					t.Errorf("%s: %+v", name, marks)
				}
			}
			if w.cp.Status.Ticket == nil || w.cp.Status.Ticket.Cause == "unknown" {
				t.Errorf("ticket %+v", w.cp.Status.Ticket)
			}
		})
	}
}

// When their manager comes back and delivers another plan, nobody can tell any more what was found. The plan is kept, and a person told.
func TestFound_APlanThatChangesAfterwardsIsKept(t *testing.T) {
	w := rollWorld(t)
	w.theirs(t)
	w.adopt(t)
	found := map[string]Marks{}
	for name, h := range w.machines {
		found[name] = h.m.Marks
	}
	w.theirs(t) // again: the plans differ
	for name, marks := range found {
		w.machines[name].m.Marks = marks
	}
	before := w.plans()
	w.edit(func(spec *rkev1.RKEControlPlaneSpec) { spec.ProvisionGeneration++ })
	w.run(t)
	if diff := cmp.Diff(before, w.plans()); diff != "" {
		t.Errorf("plans are changed:\n%s", diff)
	}
	if class, _ := Assess(w.snapshot(t)).Find("w1"); !strings.Contains(class.Held, "not the one that it was adopted with") {
		t.Errorf("w1 has to expect %+v", class)
	}
}
