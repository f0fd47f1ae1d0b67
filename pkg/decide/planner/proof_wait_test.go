package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// Members that refused their plans, that do not work, or that are drained must not wait for each other. In each of
// these tests they once waited forever.

func drainServers(s *rkev1.RKEControlPlaneSpec) {
	s.UpgradeStrategy.ControlPlaneDrainOptions.Enabled = true
}

func mendAll(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 7 }

// drained is a node that was drained, and stays drained.
var drained = Drain{Requested: `{"enabled":true}`, Done: `{"enabled":true}`}

// twoDrained is a cluster whose servers s2 and s3 are drained for their change.
func twoDrained(t *testing.T) (w *world, second, third *host) {
	t.Helper()
	w = servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	w.finish("s1")
	w.edit(drainServers)
	second, third = w.machines["s2"], w.machines["s3"]
	second.drain, third.drain = drained, drained
	return w, second, third
}

// runDrains lets the drainer carry out its requests, and the planner react, for some hours.
func (w *world) runDrains(t *testing.T) Decision {
	t.Helper()
	var d Decision
	for range 4 {
		d = w.run(t)
		for _, name := range w.names() {
			w.machines[name].drainNode()
		}
		w.now = w.now.Add(time.Hour)
	}
	return d
}

// refusedBesideBroken is a cluster whose server s1 refused its plan, and whose s2 does not work.
func refusedBesideBroken(t *testing.T, edits ...func(*rkev1.RKEControlPlaneSpec)) (w *world, first, second *host) {
	t.Helper()
	w = servers(t, map[string]string{"w": "worker"})
	for _, edit := range append(edits, restartAll) {
		w.edit(edit)
	}
	w.runDrains(t)
	first, second = w.machines["s1"], w.machines["s2"]
	first.refusePlan(t, true)
	w.run(t)
	second.probes(false)
	return w, first, second
}

// A member that does not work is drained for the change that may repair it, and then gets that change.
func TestDecide_DrainedForWhatMayMendIt(t *testing.T) {
	t.Run("another machine refused its plan", func(t *testing.T) {
		w, first, second := refusedBesideBroken(t, drainServers)
		w.edit(mendAll)
		d := w.runDrains(t)
		if second.drain.Done == "" || !second.hasPlan() || !first.refused() {
			t.Errorf("s2 was drained %q, and has its plan %t; wait %+v", second.drain.Done, second.hasPlan(), d.Wait)
		}
	})
	t.Run("another machine does not work", func(t *testing.T) {
		w := servers(t, map[string]string{"w": "worker"})
		w.machines["s2"].probes(false)
		w.machines["s3"].probes(false)
		w.edit(drainServers)
		w.edit(restartAll)
		d := w.runDrains(t)
		if second := w.machines["s2"]; second.drain.Done == "" || !second.hasPlan() ||
			w.machines["s3"].drain.Requested != "" {
			t.Errorf("s2 was drained %q, and has its plan %t; wait %+v", second.drain.Done, second.hasPlan(), d.Wait)
		}
	})
}

// A drained machine that works again, and whose change waits for others, is uncordoned: they may wait for the end of
// its drain.
func TestDecide_NobodyStaysDrainedForLong(t *testing.T) {
	t.Run("another machine refused its plan, and its agent gave up", func(t *testing.T) {
		w, first, second := refusedBesideBroken(t, drainServers)
		w.edit(mendAll)
		w.run(t)
		second.drainNode()
		first.spend()
		second.probes(true)
		before := first.state().Checksum
		d := w.runDrains(t)
		if first.state().Checksum == before || first.refused() {
			t.Errorf("s1 does not get its plan again; s2 is at %+v; wait %+v", second.drain, d.Wait)
		}
	})
	t.Run("another machine does not work and waits for its change", func(t *testing.T) {
		w := servers(t, map[string]string{"w": "worker"})
		w.edit(drainServers)
		w.edit(restartAll)
		w.runDrains(t)
		w.finish("s1")
		for range 3 {
			w.run(t)
			w.machines["s1"].drainNode()
		}
		second, third := w.machines["s2"], w.machines["s3"]
		if second.drain.Requested == "" {
			t.Fatal("s2 is not drained")
		}
		third.probes(false)
		w.run(t)
		second.drainNode()
		w.run(t)
		if second.drain.Uncordon != "" || second.hasPlan() {
			t.Fatalf("s2 is at %+v while s3 may work again in a moment", second.drain)
		}
		if d := w.runDrains(t); second.hasPlan() || !third.hasPlan() {
			t.Errorf("s2 is at %+v, s3 at %+v; wait %+v", second.drain, third.drain, d.Wait)
		}
	})
}

// When a drained machine that had stopped working works again next to another drained one, one of the two gives up its
// place.
func TestDecide_TwoWaitDrained(t *testing.T) {
	w, second, third := twoDrained(t)
	d := Decide(w.snapshot(t))
	if ended := effectsOf[RequestUncordon](d); len(ended) != 1 {
		t.Errorf("the drains that are ended: %+v; wait %+v", ended, d.Wait)
	}
	if d := w.runDrains(t); !second.hasPlan() && !third.hasPlan() {
		t.Errorf("s2 is at %+v, s3 at %+v; wait %+v", second.drain, third.drain, d.Wait)
	}
}

// Two machines that gave up the plan of their drain stay drained, and each waits only for the other's restart.
func TestDecide_TwoHaveGivenUpDrained(t *testing.T) {
	for name, given := range map[string]func(first, second *host){
		"both are drained":          func(*host, *host) {},
		"and need not be":           func(first, second *host) { first.m.SkipDrain, second.m.SkipDrain = true, true },
		"and need not prove either": func(first, second *host) { first.m.SkipProof, second.m.SkipProof = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			w, first, second := twoRefused(t)
			first.spend()
			second.spend()
			first.drain, second.drain = drained, drained
			given(first, second)
			if d := Decide(w.snapshot(t)); !slices.Equal(deliveries(d), []string{"s1"}) {
				t.Errorf("plans go to %v; wait %+v", deliveries(d), d.Wait)
			}
			second.drain.Done = ""
			if d := Decide(w.snapshot(t)); slices.Contains(deliveries(d), "s1") {
				t.Errorf("while s2 is being drained plans go to %v", deliveries(d))
			}
		})
	}
}

// A refusal does not hold up changes of the member that caused it. It was no try of the change, and takes no place of
// those that may be unavailable.
func TestDecide_ARefusalHoldsUpNobodyWhoDoesNotWork(t *testing.T) {
	for name, given := range map[string]func(w *world, second *host){
		"who is to be restarted in the same tier": func(*world, *host) {},
		"when that is edited":                     func(w *world, _ *host) { w.edit(mendAll) },
		"when its agent has given up":             func(_ *world, h *host) { h.spend() },
		"when it is edited and has given up":      func(w *world, h *host) { w.edit(mendAll); h.spend() },
		"when it need not prove anything":         func(_ *world, h *host) { h.m.SkipProof = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.edit(restartAll)
			w.roll(t, "s1")
			w.run(t)
			second, third := w.machines["s2"], w.machines["s3"]
			third.probes(false)
			second.refusePlan(t, true)
			given(w, second)
			if d := Decide(w.snapshot(t)); !slices.Equal(deliveries(d), []string{"s3"}) {
				t.Errorf("plans go to %v; wait %+v", deliveries(d), d.Wait)
			}
			third.probes(true)
			if got := deliveries(Decide(w.snapshot(t))); slices.Contains(got, "s3") {
				t.Errorf("while all work plans go to %v", got)
			}
		})
	}
}

// With overrides for two machines that refuse, neither waits for an agent that may try for hours. The message says so
// where one waits for the other. One override is not enough: all members work, so the agent of the other machine may
// prove its plan and restart at this moment.
func TestDecide_TheOverrideOfTwoThatRefuse(t *testing.T) {
	w, first, second := twoRefused(t)
	if message := Decide(w.snapshot(t)).Wait.Message; !strings.Contains(message, rkev1.EtcdProofSkipAnnotation) {
		t.Errorf("the message does not name the override: %q", message)
	}
	for name, h := range map[string]*host{"s1": first, "s2": second} {
		h.m.SkipProof = true
		if got := deliveries(Decide(w.snapshot(t))); len(got) > 0 {
			t.Errorf("%s need not prove anything: plans go to %v", name, got)
		}
		h.m.SkipProof = false
	}
	first.m.SkipProof, second.m.SkipProof = true, true
	if d := Decide(w.snapshot(t)); !slices.Equal(deliveries(d), []string{"s1"}) || proves(t, d, "s1") {
		t.Errorf("both need not: plans go to %v; wait %+v", deliveries(d), d.Wait)
	}
	delete(second.data, nodeplan.KeyProbeStatuses)
	if got := deliveries(Decide(w.snapshot(t))); slices.Contains(got, "s1") {
		t.Errorf("while s2 does not work plans go to %v", got)
	}
}

// Of six members one has left and one is left out. The proof of five others needs four. Three exist, which is what a
// proof of four needs.
func TestDecide_AProofThatAsksForMoreThanANewOne(t *testing.T) {
	w := servers(t, map[string]string{"s4": "etcd", "s5": "etcd", "s6": "etcd", "w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first := w.machines["s1"]
	w.machines["s5"].probes(false)
	w.machines["s5"].m.Skip = true
	first.refusePlan(t, true)
	delete(w.machines, "s6")
	w.run(t)
	if othersOf(first) != 4 {
		t.Errorf("the proof is of %d other members", othersOf(first))
	}
	first.refusePlan(t, true)
	if got := deliveries(Decide(w.snapshot(t))); len(got) > 0 {
		t.Errorf("s1 refused its plan again, and plans go to %v", got)
	}
}

// The last of two members refuses a plan that it cannot prove, loses nothing meanwhile, and restarts when the user
// requests it.
func TestDecide_ALoneMemberThatRefuses(t *testing.T) {
	w := ready(t, map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	delete(w.machines, "s2")
	w.run(t)
	first.refusePlan(t, true)
	w.run(t)
	before := w.writes
	for range 3 {
		w.pass(t)
	}
	if w.writes > before {
		t.Errorf("%d writes while nothing happens", w.writes-before)
	}
	first.m.SkipProof = true
	if d := Decide(w.snapshot(t)); !slices.Equal(deliveries(d), []string{"s1"}) || proves(t, d, "s1") {
		t.Errorf("plans go to %v; wait %+v", deliveries(d), d.Wait)
	}
}

// When two drained members do not work, one gets its change, which may repair it.
func TestDecide_TwoThatDoNotWorkAreDrained(t *testing.T) {
	w, second, third := twoDrained(t)
	second.probes(false)
	third.probes(false)
	if d := w.runDrains(t); second.hasPlan() == third.hasPlan() {
		t.Errorf("s2 is at %+v, s3 at %+v; wait %+v", second.drain, third.drain, d.Wait)
	}
}

// Of one member that refused and does not work, and another that does not work, at most one is drained per pass.
func TestDecide_OneIsDrainedInAPass(t *testing.T) {
	w, first, second := refusedBesideBroken(t)
	w.edit(drainServers)
	first.unwell("kubelet")
	second.failPlan()
	second.m.NodeLostSince = w.now
	w.edit(mendAll)
	for range 3 {
		if begun := effectsOf[RequestDrain](Decide(w.snapshot(t))); len(begun) > 1 {
			t.Errorf("drained are %+v", begun)
		}
		w.run(t)
	}
}

// When the init node leaves, a machine that refused its plan, or is drained for it, takes its place. Otherwise it could
// never go on.
func TestDecide_TheInitNodeLeavesWhoWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		roles map[string]string
		edit  func(*rkev1.RKEControlPlaneSpec)
		given func(w *world, second *host)
	}{
		"one that is drained": {roles: map[string]string{"w": "worker"}, edit: drainServers,
			given: func(_ *world, h *host) { h.drainNode() }},
		"one that refused": {roles: map[string]string{"w": "worker"}, given: func(w *world, h *host) {
			h.refusePlan(t, true)
			w.run(t)
			h.m.SkipProof = true
		}},
		"two others, and one of them refused": {roles: map[string]string{"s3": "etcd,control-plane", "w": "worker"},
			given: func(w *world, h *host) {
				h.refusePlan(t, true)
				w.run(t)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.roles["s1"], tc.roles["s2"] = "etcd,control-plane", "etcd,control-plane"
			w := ready(t, tc.roles)
			if tc.edit != nil {
				w.edit(tc.edit)
			}
			w.edit(restartAll)
			w.roll(t, "s1")
			w.run(t)
			second := w.machines["s2"]
			tc.given(w, second)
			delete(w.machines, "s1")
			d := w.runDrains(t)
			if !second.m.Marks.InitNode && (w.machines["s3"] == nil || !w.machines["s3"].m.Marks.InitNode) {
				t.Errorf("no machine becomes the init node: %+v", d.Wait)
			}
			if second.drain.Uncordon == "" && !second.hasPlan() {
				t.Errorf("s2 is at %+v; wait %+v", second.drain, d.Wait)
			}
		})
	}
}

// A waiting machine does not take the place of the init node while another one is at rest, because no machine joins
// until it goes on.
func TestDecide_WhoIsAtRestTakesThePlaceOfTheInitNode(t *testing.T) {
	for name, given := range map[string]func(w *world, second *host){
		"the drain of s2 does not end": func(_ *world, h *host) { h.drain = Drain{Requested: `{"enabled":true}`} },
		"s2 refused its plan, and its pool is paused": func(w *world, h *host) {
			h.refusePlan(t, true)
			w.run(t)
			h.m.PoolPaused = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.edit(restartAll)
			w.roll(t, "s1")
			w.run(t)
			given(w, w.machines["s2"])
			delete(w.machines, "s1")
			w.add("s4", "etcd,control-plane")
			if d := w.run(t); !w.machines["s3"].m.Marks.InitNode {
				t.Errorf("s3 does not take the place: %+v", d.Wait)
			}
		})
	}
}
