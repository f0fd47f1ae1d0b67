package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// A refused plan is not carried out in another way, and not with less care.

// unwell makes one of the probes of a plan fail, and all others pass.
func (h *host) unwell(part string) {
	statuses := map[string]plan.ProbeStatus{}
	for name := range h.state().Plan.Probes {
		statuses[name] = plan.ProbeStatus{Healthy: !strings.Contains(name, part)}
	}
	h.data[nodeplan.KeyProbeStatuses], _ = nodeplan.EncodeProbeStatuses(statuses)
}

// overriddenBesideLost is a cluster whose server s1 refused its plan and need not prove anything, and whose s2 is lost.
func overriddenBesideLost(t *testing.T) (w *world, first *host) {
	t.Helper()
	w = servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first, second := w.machines["s1"], w.machines["s2"]
	first.refusePlan(t, true)
	second.probes(false)
	second.m.NodeLostSince = w.now
	w.run(t)
	first.m.SkipProof = true
	return w, first
}

// drainedForPlan is a cluster whose server s1 was drained for its current plan.
func drainedForPlan(t *testing.T) (w *world, first *host) {
	t.Helper()
	w = servers(t, map[string]string{"w": "worker"})
	w.edit(drainServers)
	w.edit(restartAll)
	w.runDrains(t)
	if first = w.machines["s1"]; !first.hasPlan() || !first.drain.isDone() {
		t.Fatalf("s1 is at %+v", first.drain)
	}
	return w, first
}

// A momentary failure of a probe other than etcd's does not waive a proof.
func TestDecide_AProbeThatFailsForAMomentWaivesNoProof(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	w.machines["s3"].m.NodeLostSince, w.machines["s3"].m.Skip = w.now, true
	first := w.machines["s1"]
	first.refusePlan(t, true)
	w.run(t)
	first.unwell("kubelet")
	if got := deliveries(Decide(w.snapshot(t))); len(got) > 0 {
		t.Errorf("plans go to %v", got)
	}
}

// An override waits until the other members work. An edit that restarts nothing by itself does not carry out a refused
// plan before that.
func TestDecide_AnOverrideDoesNotWaiveTheOtherMembers(t *testing.T) {
	w, _ := overriddenBesideLost(t)
	if got := deliveries(Decide(w.snapshot(t))); slices.Contains(got, "s1") {
		t.Fatalf("plans go to %v", got)
	}
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "kind: A\n" })
	if d := Decide(w.snapshot(t)); !slices.Contains(deliveries(d), "s1") || !proves(t, d, "s1") {
		t.Errorf("plans go to %v, and s1 proves %t", deliveries(d), slices.Contains(deliveries(d), "s1") &&
			proves(t, d, "s1"))
	}
}

// A machine that was drained for a plan that its agent may carry out at any time stays drained.
func TestDecide_DrainedForAsLongAsAPlanIsOutstanding(t *testing.T) {
	w, first := drainedForPlan(t)
	first.refusePlan(t, true)
	w.machines["s2"].probes(false)
	w.run(t)
	w.edit(mendAll)
	if w.runDrains(t); !first.drain.isDone() {
		t.Errorf("s1 is at %+v", first.drain)
	}
}

// A node that refused its plan and is not drained any more is drained again before the next delivery.
func TestDecide_DrainedBeforeAnotherDelivery(t *testing.T) {
	w, first := drainedForPlan(t)
	had := w.cp.Spec.ProvisionGeneration
	first.refusePlan(t, true)
	first.m.PoolPaused = true
	w.edit(mendAll)
	if w.runDrains(t); first.drain.Requested != "" {
		t.Fatalf("s1 is at %+v", first.drain)
	}
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = had })
	first.m.PoolPaused = false
	w.run(t)
	first.spend()
	before := first.state().Checksum
	if w.run(t); first.state().Checksum != before || first.drain.Requested == "" {
		t.Errorf("s1 has another delivery %t, and is at %+v", first.state().Checksum != before, first.drain)
	}
	if w.runDrains(t); first.state().Checksum == before || !first.drain.isDone() {
		t.Errorf("s1 has another delivery %t, and is at %+v", first.state().Checksum != before, first.drain)
	}
}

// No message advises an annotation on a machine that needs no action.
func TestDecide_NoAdviceThatDoesNothing(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.roll(t, "s1")
	w.run(t)
	second := w.machines["s2"]
	second.refusePlan(t, true)
	w.edit(mendAll)
	w.run(t)
	second.refusePlan(t, true)
	for _, second.m.PoolPaused = range []bool{false, true} {
		w.run(t)
		if message := w.machines["s1"].m.Reconciled.Message; strings.Contains(message,
			rkev1.EtcdProofSkipAnnotation) == second.m.PoolPaused {
			t.Errorf("while the pool of s2 is paused %t, s1 says %q", second.m.PoolPaused, message)
		}
	}
}

// When two machines refused, they get an edit that restarts nothing by itself one after the other, because each would
// try its refused plan again.
func TestDecide_AnEditBringsNewTriesToOneAtATime(t *testing.T) {
	for name, given := range map[string]func(second, third *host){
		"one has given up, and the other one need not prove anything": func(second, third *host) {
			second.m.SkipProof = true
			third.spend()
		},
		"none need prove anything": func(second, third *host) { second.m.SkipProof, third.m.SkipProof = true, true },
		"both have given up":       func(second, third *host) { second.spend(); third.spend() },
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.edit(restartAll)
			w.roll(t, "s1")
			w.run(t)
			first, second, third := w.machines["s1"], w.machines["s2"], w.machines["s3"]
			third.probes(false)
			second.refusePlan(t, true)
			w.run(t)
			third.refusePlan(t, true)
			w.run(t)
			w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "kind: A\n" })
			w.pass(t)
			first.applyPlan()
			first.probes(true)
			given(second, third)
			for range 5 {
				got := deliveries(w.pass(t))
				if len(got) == 0 {
					continue
				}
				if !slices.Equal(got, []string{"s2"}) && !slices.Equal(got, []string{"s3"}) {
					t.Errorf("plans go to %v", got)
				}
				return
			}
			t.Error("no machine gets the edit")
		})
	}
}

// A machine whose kubelet fails for a moment still has a working member that the others need.
func TestDecide_AnotherPartThatFailsWaivesNobody(t *testing.T) {
	t.Run("who is left out", func(t *testing.T) {
		w := servers(t, map[string]string{"w": "worker"})
		w.machines["s3"].m.NodeLostSince, w.machines["s3"].m.Skip = w.now, true
		w.machines["s1"].unwell("kubelet")
		w.edit(restartAll)
		if got := deliveries(Decide(w.snapshot(t))); len(got) > 0 {
			t.Errorf("plans go to %v", got)
		}
		w.machines["s1"].unwell("etcd")
		if got := deliveries(Decide(w.snapshot(t))); !slices.Equal(got, []string{"s1"}) {
			t.Errorf("when the member of s1 is down, too, plans go to %v", got)
		}
	})
	t.Run("who does not work either, by an override", func(t *testing.T) {
		w, first := overriddenBesideLost(t)
		first.unwell("kubelet")
		if got := deliveries(Decide(w.snapshot(t))); slices.Contains(got, "s1") {
			t.Errorf("while s2 is lost plans go to %v, which s1 would refuse again", got)
		}
	})
}

// In an operation, an override also waits for the other members.
func TestDecide_AnOverrideInARotation(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(askCertificates(1))
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	w.machines["s3"].m.NodeLostSince = w.now
	w.run(t)
	first.m.SkipProof = true
	if got := deliveries(Decide(w.snapshot(t))); len(got) > 0 {
		t.Errorf("while s3 is lost plans go to %v", got)
	}
	w.machines["s3"].m.NodeLostSince = time.Time{}
	if d := Decide(w.snapshot(t)); !slices.Equal(deliveries(d), []string{"s1"}) || proves(t, d, "s1") {
		t.Errorf("when it is back plans go to %v", deliveries(d))
	}
}

// Only a refused plan is drained for again. A failed restart has begun, and its next try does not wait for a drain of a
// node that may be lost.
func TestDecide_AnotherTryWithoutAnotherDrain(t *testing.T) {
	w, first := drainedForPlan(t)
	first.failPlan()
	w.run(t)
	first.spend()
	first.m.NodeLostSince = w.now
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.UpgradeStrategy.ControlPlaneDrainOptions.Timeout = 600 })
	w.run(t)
	first.m.Retry = true
	before := first.state().Checksum
	if d := w.run(t); first.state().Checksum == before {
		t.Errorf("there is no other try: %+v; s1 is at %+v", d.Wait, first.drain)
	}
}
