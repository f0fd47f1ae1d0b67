package planner

import (
	"slices"
	"strings"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/nodeplan"
)

// What a node refused is not carried out by another way, and not with less care.

// unwell has one of the probes of a plan fail, and all others pass.
func (h *host) unwell(part string) {
	statuses := map[string]plan.ProbeStatus{}
	for name := range h.state().Plan.Probes {
		statuses[name] = plan.ProbeStatus{Healthy: !strings.Contains(name, part)}
	}
	h.data[nodeplan.KeyProbeStatuses], _ = nodeplan.EncodeProbeStatuses(statuses)
}

// Nobody waives a proof because a probe that is not etcd's fails for a moment.
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

// An override waits until the other members work. An edit that restarts nothing by itself does not carry out before what was refused.
func TestDecide_AnOverrideDoesNotWaiveTheOtherMembers(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first, second := w.machines["s1"], w.machines["s2"]
	first.refusePlan(t, true)
	second.probes(false)
	second.m.NodeLostSince = w.now
	w.run(t)
	first.m.SkipProof = true
	if got := deliveries(Decide(w.snapshot(t))); slices.Contains(got, "s1") {
		t.Fatalf("plans go to %v", got)
	}
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "kind: A\n" })
	if d := Decide(w.snapshot(t)); !slices.Contains(deliveries(d), "s1") || !proves(t, d, "s1") {
		t.Errorf("plans go to %v, and s1 proves %t", deliveries(d), slices.Contains(deliveries(d), "s1") && proves(t, d, "s1"))
	}
}

// Who was drained for a plan that its agent may carry out at any time stays drained.
func TestDecide_DrainedForAsLongAsAPlanIsOutstanding(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(drainServers)
	w.edit(restartAll)
	w.runDrains(t)
	first := w.machines["s1"]
	if !first.hasPlan() || !first.drain.over() {
		t.Fatalf("s1 is at %+v", first.drain)
	}
	first.refusePlan(t, true)
	w.machines["s2"].probes(false)
	w.run(t)
	w.edit(mendAll)
	if w.runDrains(t); !first.drain.over() {
		t.Errorf("s1 is at %+v", first.drain)
	}
}

// A plan that was refused, and whose node is drained no more, has it drained again before it is delivered again.
func TestDecide_DrainedBeforeAnotherDelivery(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(drainServers)
	w.edit(restartAll)
	w.runDrains(t)
	first, had := w.machines["s1"], w.cp.Spec.ProvisionGeneration
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
	if w.runDrains(t); first.state().Checksum == before || !first.drain.over() {
		t.Errorf("s1 has another delivery %t, and is at %+v", first.state().Checksum != before, first.drain)
	}
}

// Nobody is told to annotate a machine that nothing is done about.
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
		if message := w.machines["s1"].m.Reconciled.Message; strings.Contains(message, rkev1.EtcdProofSkipAnnotation) == second.m.PoolPaused {
			t.Errorf("while the pool of s2 is paused %t, s1 says %q", second.m.PoolPaused, message)
		}
	}
}
