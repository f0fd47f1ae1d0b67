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
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// theirs turns a cluster in order into one of another manager: its plans have an extra file and instruction, and its
// notes are only on plan Secrets.
func (w *world) theirs(t *testing.T) {
	t.Helper()
	for _, name := range w.names() {
		h := w.machines[name]
		p := h.state().Plan
		p.Files = append(slices.Clone(p.Files),
			plan.File{Path: "/etc/theirs", Content: base64.StdEncoding.EncodeToString([]byte("theirs"))})
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

// Machines with a plan of a Drover keep their notes.
func TestTakeOver_LeavesTheNotesOfADrover(t *testing.T) {
	w := rollWorld(t)
	if got := TakeOver(w.snapshot(t)); len(got.Marks) > 0 || len(got.Problems) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestTakeOver_BelievesNoSecondInitNode(t *testing.T) {
	w := rollWorld(t)
	w.theirs(t)
	w.machines["w1"].initLabel = true // its node can write this
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

// A change that Rancher has not brought to all machines blocks the takeover: the other machines would never get it.
func TestTakeOver_WaitsForARollOutOfTheirs(t *testing.T) {
	w := rollWorld(t)
	w.theirs(t)
	applied := w.cp.Spec.DeepCopy()
	w.cp.Spec.AdditionalManifest, w.cp.Spec.KubernetesVersion = "kind: New", "v1.99.0+rke2r1"
	w.cp.Status.AppliedSpec = applied
	got := TakeOver(w.snapshot(t)).Problems
	if len(got) != 1 || !strings.Contains(got[0], "differs from spec in additionalManifest, kubernetesVersion)") {
		t.Errorf("problems %q", got)
	}
	for name, status := range map[string]*rkev1.RKEControlPlaneSpec{"all machines have it": w.cp.Spec.DeepCopy(),
		"the applied spec is unknown": nil} {
		w.cp.Status.AppliedSpec = status
		if got := TakeOver(w.snapshot(t)).Problems; len(got) > 0 {
			t.Errorf("%s: problems %q", name, got)
		}
	}
	ours := rollWorld(t) // a Drover's rollout continues
	ours.cp.Spec.AdditionalManifest = "kind: New"
	if got := TakeOver(ours.snapshot(t)).Problems; len(got) > 0 {
		t.Errorf("a Drover's: problems %q", got)
	}
}

// Adoption changes no plan, and neither does a newer program or newer release data.
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

// Granting, revoking and granting again the use of a Secret does not change plans.
func TestFound_ToAllowASecretIsNoWish(t *testing.T) {
	offered := Object{
		Kind: "Secret", Namespace: "cattle-global-data", Name: "s3", Data: map[string][]byte{"accessKey": []byte("a")},
		Annotations: map[string]string{"rke.cattle.io/object-authorized-for-clusters": "fleet-default/*"},
	}
	allowed, denied, edited := offered, offered, offered
	allowed.Annotations = nil
	denied.Annotations, denied.Data, denied.Denied = nil, nil, "no user who may read it has named it"
	edited.Data = map[string][]byte{"accessKey": []byte("b")}
	for name, tc := range map[string]struct {
		before Object
		after  []Object
		want   bool
	}{
		"it is offered":                                {before: allowed, after: []Object{offered, allowed}},
		"it may not be used for a while":               {before: allowed, after: []Object{denied, offered}},
		"it may be used only after the takeover":       {before: denied, after: []Object{denied, offered}},
		"it is edited, which is a wish":                {before: allowed, after: []Object{edited}, want: true},
		"it is edited while it may not be used, later": {before: allowed, after: []Object{denied, edited}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := rollWorld(t)
			w.theirs(t)
			w.objects = []Object{tc.before}
			w.adopt(t)
			w.run(t)
			before, wished := w.plans(), false
			for _, object := range tc.after {
				w.objects = []Object{object}
				class, _ := Assess(w.snapshot(t)).Find("w1")
				wished = class.Class != ClassNone
				w.run(t)
			}
			if wished != tc.want {
				t.Errorf("w1 is changed: %t", wished)
			}
			if diff := cmp.Diff(before, w.plans()); !tc.want && diff != "" {
				t.Errorf("plans are changed:\n%s", diff)
			}
		})
	}
}

// A requested change gives every machine a plan of Drover, one after the other, with its cause, and removes the found
// notes.
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
				if marks := h.m.Marks; marks.RenderVersion != w.versions.Newest() || marks.Found != "" ||
					strings.Contains(string(h.data[nodeplan.KeyPlan]), "THEIRS=1") {
					t.Errorf("%s: %+v", name, marks)
				}
			}
			if w.cp.Status.Ticket == nil || w.cp.Status.Ticket.Cause == "unknown" {
				t.Errorf("ticket %+v", w.cp.Status.Ticket)
			}
		})
	}
}

// printsNothing removes what only plans of Drover have: the instruction by which servers print their kubeconfig.
func (w *world) printsNothing(t *testing.T) {
	t.Helper()
	for _, h := range w.machines {
		p := h.state().Plan
		p.PeriodicInstructions = nil
		encoded, err := nodeplan.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		h.data = maps.Clone(h.data)
		h.data[nodeplan.KeyPlan] = encoded
		h.applyPlan()
	}
}

// The drainer needs the kubeconfig that a server prints, and no server of another manager does. Therefore the first
// server is not drained, and its kubeconfig opens the cluster for all others. Hooks of a user always run.
func TestFound_TheFirstServerIsNotDrained(t *testing.T) {
	for name, options := range map[string]rkev1.DrainOptions{
		"drains":      {Enabled: true},
		"drain hooks": {Enabled: true, PreDrainHooks: []rkev1.DrainHook{{Annotation: "h"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := rollWorld(t)
			w.edit(func(spec *rkev1.RKEControlPlaneSpec) { spec.UpgradeStrategy.ControlPlaneDrainOptions = options })
			w.theirs(t)
			w.printsNothing(t)
			w.adopt(t)
			before := w.plans()
			w.edit(restartAll)
			w.run(t)
			first := w.machines["s1"]
			hooked := len(options.PreDrainHooks) > 0
			if drained := first.drain.Requested != ""; drained != hooked ||
				(w.plans()["s1"] == before["s1"]) != hooked {
				t.Fatalf("the drain of the first server is asked for: %t", drained)
			}
			if hooked {
				return
			}
			first.applyPlan()
			first.probes(true)
			for range 3 {
				w.run(t)
			}
			if w.machines["s2"].drain.Requested == "" || len(UnderWay(w.snapshot(t))) != 1 {
				t.Errorf("the second server is not drained; under way: %q", UnderWay(w.snapshot(t)))
			}
		})
	}
}

// UnderWay names everything that a manager must finish before it releases a cluster.
func TestUnderWay_NamesWhatRuns(t *testing.T) {
	w := rollWorld(t)
	if got := UnderWay(w.snapshot(t)); len(got) > 0 {
		t.Errorf("at rest: %q", got)
	}
	w.cp.Status.Conditions = append(w.cp.Status.Conditions,
		rkev1.GenericCondition{Type: ConditionSnapshotRestored, Status: "Unknown"},
		rkev1.GenericCondition{Type: ConditionKeysRotated, Status: "False"})
	w.machines["w1"].drain.Requested = "{}"
	want := []string{"an operation runs: etcd restore", "the node of machine w1 is drained"}
	if diff := cmp.Diff(want, UnderWay(w.snapshot(t))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.machines["w1"].m.Deleting = true
	if got := UnderWay(w.snapshot(t)); len(got) != 1 {
		t.Errorf("a machine that goes: %q", got)
	}
}

// When the former manager delivers another plan, the found state is unknown, so the plan is kept and the user is
// informed.
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
	if class, _ := Assess(w.snapshot(t)).Find("w1"); !strings.Contains(class.Held,
		"differs from the plan that it was adopted with") {
		t.Errorf("w1 has to expect %+v", class)
	}
}
