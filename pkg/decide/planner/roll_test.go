package planner

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// next is a program with one more render version, whose plans have another file.
var next = render.Versions{}.With("next", func(_ render.Input, files []plan.File) []plan.File {
	return append(files, plan.File{Path: "/etc/next", Content: base64.StdEncoding.EncodeToString([]byte("next"))})
})

// plans are the bytes that nodes have.
func (w *world) plans() map[string]string {
	out := map[string]string{}
	for name, h := range w.machines {
		out[name] = string(h.data["plan"])
	}
	return out
}

func (w *world) pins() map[string]string {
	out := map[string]string{}
	for name, h := range w.machines {
		out[name] = h.m.Marks.RenderVersion
	}
	return out
}

// rollWorld is a cluster in order: three servers, and two workers in two pools.
func rollWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(rke2Version)
	for _, name := range []string{"s1", "s2", "s3"} {
		w.add(name, "etcd,control-plane").m.Labels[rkev1.MachinePoolNameLabel] = "servers"
	}
	for _, name := range []string{"w1", "w2"} {
		w.add(name, "worker").m.Labels[rkev1.MachinePoolNameLabel] = "workers"
	}
	w.bringUp(t)
	return w
}

// An upgrade and a downgrade of the program change no plan: each machine keeps its render version.
func TestRoll_AnUpgradeAndItsWayBackChangeNoPlan(t *testing.T) {
	w := rollWorld(t)
	before, pins := w.plans(), w.pins()
	for _, program := range []render.Versions{next, {}, next} {
		w.versions = program
		writes := w.writes
		d := w.run(t)
		if w.writes != writes || d.Wait != nil {
			t.Errorf("%v writes %d times and waits for %+v", program.Names(), w.writes-writes, d.Wait)
		}
		if diff := cmp.Diff(before, w.plans()); diff != "" {
			t.Errorf("%v changes plans:\n%s", program.Names(), diff)
		}
		if diff := cmp.Diff(pins, w.pins()); diff != "" {
			t.Errorf("%v changes pins:\n%s", program.Names(), diff)
		}
	}
}

// A machine that joined with the newer program keeps its plan under the older one. The message says so, and no other
// machine waits for it.
func TestRoll_APlanThatNobodyCanRenderIsKept(t *testing.T) {
	w := rollWorld(t)
	w.versions = next
	w.add("w3", "worker").m.Labels[rkev1.MachinePoolNameLabel] = "workers"
	w.bringUp(t)
	if got := w.pins()["w3"]; got != "next" {
		t.Fatalf("the new machine is pinned to %q", got)
	}
	before := w.plans()

	w.versions = render.Versions{}
	d := w.run(t)
	status, message := w.condition(ConditionRenderVersions)
	if d.Wait != nil || status != "False" || !strings.Contains(message, "w3") || strings.Contains(message, "w1") {
		t.Errorf("wait %+v, condition %s %q", d.Wait, status, message)
	}
	if diff := cmp.Diff(before, w.plans()); diff != "" {
		t.Errorf("plans are changed:\n%s", diff)
	}
	writes := w.writes
	if w.run(t); w.writes != writes {
		t.Error("a cluster at rest is written to")
	}
	if class, _ := Assess(w.snapshot(t)).Find("w3"); class.Class != ClassNone || !strings.Contains(class.Held, "next") {
		t.Errorf("w3 has to expect %+v", class)
	}

	// A change reaches all others. The user learns which machine it does not reach.
	w.edit(func(spec *rkev1.RKEControlPlaneSpec) { spec.ProvisionGeneration++ })
	for range 30 {
		d = w.run(t)
		for _, name := range w.names() {
			w.machines[name].applyPlan()
			w.machines[name].probes(true)
		}
	}
	for name, bytes := range w.plans() {
		if (bytes == before[name]) != (name == "w3") {
			t.Errorf("%s: its plan is kept is %v", name, bytes == before[name])
		}
	}
	if d.Wait == nil || d.Wait.Reason != ReasonVersionUnknown || !d.Wait.Failed ||
		!strings.Contains(d.Wait.Message, "w3") {
		t.Errorf("wait %+v", d.Wait)
	}

	// The newer program is back, or a command moves the machine to a known version.
	w.command = Roll{}.With(render.Version, "workers")
	w.bringUp(t)
	if status, _ := w.condition(ConditionRenderVersions); status != "True" || w.pins()["w3"] != render.Version {
		t.Errorf("condition %s, pins %v", status, w.pins())
	}
}

// A drain that began with the newer program ends with the older one.
func TestRoll_ADrainThatNobodyCanGoOnWithIsEnded(t *testing.T) {
	w := rollWorld(t)
	w.versions = next
	w.command = Roll{All: "next"}
	w.cp.Spec.UpgradeStrategy.WorkerDrainOptions.Enabled = true
	for range 40 {
		w.run(t)
		if w.machines["w1"].drain.Requested != "" {
			break
		}
		for _, name := range w.names() {
			w.machines[name].applyPlan()
			w.machines[name].probes(true)
			w.machines[name].joinCluster(rke2Version)
		}
	}
	if w.machines["w1"].drain.Requested == "" {
		t.Fatal("w1 is not drained")
	}
	plans := w.plans()
	w.versions = render.Versions{}
	w.bringUp(t)
	if drain := w.machines["w1"].drain; drain != (Drain{}) {
		t.Errorf("w1 is left with %+v", drain)
	}
	if diff := cmp.Diff(plans, w.plans()); diff != "" {
		t.Errorf("plans are changed:\n%s", diff)
	}
}

// A command moves machines by the rules of every rollout: some pools or all, in both directions, and once.
func TestRoll_ACommandMovesMachines(t *testing.T) {
	w := rollWorld(t)
	w.versions = next
	old := w.plans()
	w.command = Roll{}.With("next", "workers")
	first := Decide(w.snapshot(t))
	if got := causes(first); len(got) != 1 || got["w1"] != disruption.CommandRoll {
		t.Errorf("the first to move: %v", got)
	}
	w.bringUp(t)
	if diff := cmp.Diff(map[string]string{"s1": "1", "s2": "1", "s3": "1", "w1": "next", "w2": "next"},
		w.pins()); diff != "" {
		t.Errorf("pins (-want +got):\n%s", diff)
	}
	for name, bytes := range w.plans() {
		if (bytes == old[name]) != strings.HasPrefix(name, "s") {
			t.Errorf("%s: the plan is the old one is %v", name, bytes == old[name])
		}
	}
	w.command = w.command.With("next")
	w.bringUp(t)
	moved, writes := w.plans(), w.writes
	if w.run(t); w.writes != writes {
		t.Error("a command that was carried out is carried out again")
	}
	w.command = Roll{} // completed work stays
	if w.run(t); w.writes != writes {
		t.Error("a withdrawn command changes something")
	}
	w.command = Roll{}.With("1")
	w.bringUp(t)
	back := w.plans()
	for name := range back { // the files of the other version are removed, and the delivery begins with a proof
		delivered, err := nodeplan.Decode([]byte(back[name]))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := nodeplan.Encode(render.WithoutEtcdProof(delivered))
		if err != nil {
			t.Fatal(err)
		}
		back[name] = strings.Replace(string(plain), `{"path":"/etc/next","action":"delete"},`, "", 1)
	}
	if diff := cmp.Diff(old, back); diff != "" {
		t.Errorf("there and back again are other plans:\n%s", diff)
	}
	if bytes.Equal([]byte(moved["s1"]), []byte(old["s1"])) {
		t.Error("the servers never moved")
	}
}

// A version whose plans are the same moves only the pin.
func TestRoll_EqualPlansMoveThePinOnly(t *testing.T) {
	w := rollWorld(t)
	w.versions = render.Versions{}.With("same", func(_ render.Input, files []plan.File) []plan.File { return files })
	w.command = Roll{All: "same"}
	plans := w.plans()
	if d := w.run(t); d.Wait != nil {
		t.Errorf("wait %+v", d.Wait)
	}
	for name, pin := range w.pins() {
		if pin != "same" {
			t.Errorf("%s is pinned to %q", name, pin)
		}
	}
	if diff := cmp.Diff(plans, w.plans()); diff != "" {
		t.Errorf("plans are changed:\n%s", diff)
	}
}

// Commands that cannot be carried out are reported, and change nothing.
func TestRoll_UnknownVersionsAreToldOf(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"an unknown version": {"9",
			"Machines are to move to render version 9, which this Drover does not know"},
		"an unknown version for a pool": {"workers=9", "render version 9"},
		"neither a version nor a pool":  {"workers=", `"workers=" is neither VERSION nor POOL=VERSION`},
	} {
		t.Run(name, func(t *testing.T) {
			w := rollWorld(t)
			before := w.plans()
			w.command = ParseRoll(tc.text)
			d := w.run(t)
			if status, message := w.condition(ConditionRenderVersions); d.Wait != nil || status != "False" ||
				!strings.Contains(message, tc.want) {
				t.Errorf("wait %+v, condition %s %q", d.Wait, status, message)
			}
			if diff := cmp.Diff(before, w.plans()); diff != "" {
				t.Errorf("plans are changed:\n%s", diff)
			}
		})
	}
}

func TestParseRoll(t *testing.T) {
	for text, want := range map[string]Roll{
		"":            {},
		"2":           {All: "2"},
		"2 , a=3,b=1": {All: "2", Pools: map[string]string{"a": "3", "b": "1"}},
		"=2":          {Problem: `"=2" is neither VERSION nor POOL=VERSION`},
	} {
		got := ParseRoll(text)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if got.Problem == "" {
			if diff := cmp.Diff(got, ParseRoll(got.String())); diff != "" {
				t.Errorf("%q is written as %q:\n%s", text, got, diff)
			}
		}
	}
	r := ParseRoll("2,a=1")
	if r.For("a") != "1" || r.For("b") != "2" || r.For("") != "2" {
		t.Errorf("%+v", r)
	}
}

// same is a program with one more render version, whose plans equal those of the version before.
var same = render.Versions{}.With("same", func(_ render.Input, files []plan.File) []plan.File { return files })

// A command is the cause of what it changed, but not of later changes, even when the command still exists.
func TestRoll_OnlyWhatItChangesIsItsDoing(t *testing.T) {
	for name, tc := range map[string]struct {
		versions render.Versions
		to       string
		// rolled is true when the command is carried out before the last snapshot.
		rolled bool
		happen func(w *world)
		change func(s *Snapshot)
		want   disruption.Cause
	}{
		"a version with other plans": {versions: next, to: "next", want: disruption.CommandRoll},
		"its mark is written, the delivery failed": {versions: next, to: "next", happen: pinned("next"),
			want: disruption.CommandRoll},
		"newer facts after a version with equal plans": {versions: same, to: "same", rolled: true, change: knowSelinux,
			want: ""},
		"newer facts with a version with equal plans": {versions: same, to: "same", change: knowSelinux, want: ""},
		"newer facts after a version with other plans": {versions: next, to: "next", rolled: true, change: knowSelinux,
			want: ""},
		"no evidence": {versions: next, to: "next", happen: forget, want: disruption.CommandRoll},
		"no evidence, the mark is written, the delivery failed": {versions: next, to: "next",
			happen: both(forget, pinned("next")), want: disruption.CommandRoll},
		"no evidence, newer facts after equal plans": {versions: same, to: "same", rolled: true, happen: forget,
			change: knowSelinux, want: disruption.Unknown},
		"no evidence, newer facts, no command": {versions: next, happen: forget, change: knowSelinux,
			want: disruption.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := settledWorld(t)
			w.versions, w.command = tc.versions, Roll{All: tc.to}
			if tc.rolled {
				w.bringUp(t)
			}
			if tc.happen != nil {
				tc.happen(w)
			}
			s := w.snapshot(t)
			if tc.change != nil {
				tc.change(&s)
			}
			if got := causes(Decide(s))["s"]; got != tc.want {
				t.Errorf("cause %q, want %q", got, tc.want)
			}
		})
	}
}

// forget removes the evidence, as if a Drover that kept none had made the plans.
func forget(w *world) {
	for _, h := range w.machines {
		h.evidence = ""
	}
}

func pinned(version string) func(*world) {
	return func(w *world) { w.machines["s"].m.Marks.RenderVersion = version }
}

func both(a, b func(*world)) func(*world) {
	return func(w *world) { a(w); b(w) }
}
