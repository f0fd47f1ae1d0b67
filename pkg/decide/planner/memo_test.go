package planner

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// fleetOf is a settled cluster with three servers and the given number of machines in all.
func fleetOf(t interface {
	Helper()
	Fatal(args ...any)
}, machines int,
) *world {
	t.Helper()
	w := newWorld(rke2Version)
	for i := range 3 {
		w.add(fmt.Sprintf("s%d", i), "etcd,control-plane")
	}
	for i := 3; i < machines; i++ {
		w.add(fmt.Sprintf("w%04d", i), "worker")
	}
	for range 30 {
		d := Decide(w.snapshot(t))
		if w.apply(d); d.Wait == nil && len(d.Effects) == 0 {
			return w
		}
		for _, h := range w.machines {
			h.applyPlan()
			h.probes(true)
			h.joinCluster(rke2Version)
		}
		w.connected = true
	}
	t.Fatal("the cluster never settles")
	return nil
}

// A report about one node costs no more in a large cluster than in a small one, and a settled cluster costs nothing.
func TestDecide_OneNodesReportRendersNoOthersPlan(t *testing.T) {
	for _, machines := range []int{4, 40, 400} {
		w := fleetOf(t, machines)
		Decide(w.snapshot(t))
		count := func(happen func()) int {
			happen()
			before := w.memo.Rendered()
			Decide(w.snapshot(t))
			return w.memo.Rendered() - before
		}
		worker := w.machines["w0003"]
		for name, tc := range map[string]struct {
			happen func()
			want   int
		}{
			"nothing":           {func() {}, 0},
			"probes fail":       {func() { worker.probes(false) }, 0},
			"probes pass again": {func() { worker.probes(true) }, 0},
			"another address": {func() {
				worker.m.Annotations = map[string]string{rkev1.AddressAnnotation: "203.0.113.9"}
			}, 1},
			"a label": {func() { worker.m.Labels["zone"] = "b" }, 1},
		} {
			if got := count(tc.happen); got != tc.want {
				t.Errorf("%d machines, %s: %d plans are rendered, want %d", machines, name, got, tc.want)
			}
		}
		if got := count(func() { w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration++ }) }); got == 0 {
			t.Errorf("%d machines: an edit renders nothing, so this test proves nothing", machines)
		}
	}
}

// A memo never changes a decision.
func TestDecide_TheSameWithAMemoAndWithout(t *testing.T) {
	w := fleetOf(t, 6)
	compare := func(what string) {
		t.Helper()
		with := w.snapshot(t)
		without := with
		without.Memo = nil
		if diff := cmp.Diff(Decide(without), Decide(with)); diff != "" {
			t.Errorf("%s: decision (-without a memo +with one):\n%s", what, diff)
		}
	}
	compare("settled")
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.MachineGlobalConfig.Data = map[string]any{"profile": "cis"} })
	compare("an edit")
	for range 8 {
		w.apply(Decide(w.snapshot(t)))
		for _, h := range w.machines {
			h.applyPlan()
			h.probes(true)
		}
		compare("the roll-out")
	}
	w.machines["w0003"].m.Labels["zone"] = "b"
	compare("a label")
	w.objects = []Object{{Kind: "Secret", Namespace: "fleet-default", Name: "x"}}
	compare("an object")
	w.versions, w.command = next, Roll{All: "next"}
	compare("another version")
	w.versions = render.Versions{}
	compare("the version before")
	delete(w.machines, "w0004")
	compare("a machine is gone")
	w.machines["w0003"].m.UID = "another"
	compare("another machine of the same name")
}

// The cost of a decision per machine does not depend on their number. Its allocations show that even on a busy test
// host.
func TestDecide_CostsGrowAsTheMachinesDo(t *testing.T) {
	per := map[int]float64{}
	for _, machines := range []int{40, 400} {
		s := fleetOf(t, machines).snapshot(t)
		s.Memo = nil
		per[machines] = testing.AllocsPerRun(2, func() { Decide(s) }) / float64(machines)
	}
	if per[400] > 1.1*per[40] {
		t.Errorf("%.0f allocations per machine among 400, %.0f among 40", per[400], per[40])
	}
}
