package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/nodeplan"
	"github.com/drover-io/drover/pkg/planner/render"
)

// A proof says how many other members there are when it is delivered. When one of them has left by the time the node makes it, the node can never prove that,
// and gets its plan again with a proof of those that there are. While they are there it keeps what it has.
func TestDecide_AProofOfMembersThatHaveLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(*host)
		gone  bool
		want  []string
	}{
		"it refuses, and all are there":       {func(h *host) { h.refusePlan(t, true) }, false, nil},
		"it refuses, and one has left":        {func(h *host) { h.refusePlan(t, true) }, true, []string{"s1"}},
		"an agent of another make refuses":    {func(h *host) { h.refusePlan(t, false) }, true, []string{"s1"}},
		"one has left, and it is at its plan": {func(*host) {}, true, nil},
		"it fails at something else":          {func(h *host) { h.failPlan() }, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"s4": "etcd", "w": "worker"})
			w.edit(restartAll)
			w.run(t)
			first := w.machines["s1"]
			if got := render.EtcdProofOthers(first.state().Plan); got != 3 {
				t.Fatalf("the proof is of %d other members", got)
			}
			tc.given(first)
			if tc.gone {
				delete(w.machines, "s4")
			}
			d := Decide(w.snapshot(t))
			got := slices.DeleteFunc(deliveries(d), func(name string) bool { return name != "s1" })
			if diff := cmp.Diff(tc.want, got, cmp.Transformer("none", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
				t.Fatalf("plans (-want +got):\n%s\nwait %+v", diff, d.Wait)
			}
			if tc.want == nil {
				return
			}
			w.run(t)
			if got := render.EtcdProofOthers(first.state().Plan); got != 2 {
				t.Errorf("the new proof is of %d other members", got)
			}
			first.refusePlan(t, true)
			if again := deliveries(Decide(w.snapshot(t))); slices.Contains(again, "s1") {
				t.Error("the same plan is delivered over and over")
			}
		})
	}
}

// The same goes for an operation that restarts members, which would fail otherwise.
func TestDecide_ARotationOfMembersThatHaveLeft(t *testing.T) {
	w := servers(t, map[string]string{"s4": "etcd,control-plane", "w": "worker"})
	w.edit(askCertificates(1))
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	w.run(t)
	if got := render.EtcdProofOthers(first.state().Plan); got != 3 {
		t.Fatalf("the proof is of %d other members", got)
	}
	delete(w.machines, "s4")
	w.run(t)
	if have := first.state().Plan; render.EtcdProofOthers(have) != 2 || render.OperationOf(have) != render.OperationCertificates {
		t.Errorf("the proof is of %d other members", render.EtcdProofOthers(have))
	}
}

// A node that knows of other members is not overruled when nobody here knows of them any more: it proves that it is alone.
func TestDecide_AProofOfNobody(t *testing.T) {
	w := ready(t, map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	w.machines["s2"].m.Deleting = true // and nothing holds it, though its member may be there
	d := Decide(w.snapshot(t))
	if !slices.Contains(deliveries(d), "s1") || !proves(t, d, "s1") {
		t.Errorf("plans go to %v", deliveries(d))
	}
	w.run(t)
	if first.refusePlan(t, true); slices.Contains(deliveries(Decide(w.snapshot(t))), "s1") {
		t.Error("the same plan is delivered over and over")
	}
}

// What a node has carried out asks for no proof any more, whatever it says of a second time.
func TestDecide_AProofThatWasMade(t *testing.T) {
	w := servers(t, map[string]string{"s4": "etcd", "w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first := w.machines["s1"]
	first.refusePlan(t, true)
	first.data[nodeplan.KeyAppliedChecksum] = []byte(first.state().Checksum)
	delete(w.machines, "s4")
	if d := Decide(w.snapshot(t)); slices.Contains(deliveries(d), "s1") {
		t.Errorf("plans go to %v", deliveries(d))
	}
}

// Two members that refused, and both ask for one that has left, do not wait for each other: the first one gets its plan anew, and then the other.
func TestDecide_TwoProofsOfAMemberThatHasLeft(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	first, second := w.machines["s1"], w.machines["s2"]
	first.refusePlan(t, true)
	second.probes(false)
	w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.ProvisionGeneration = 7 })
	w.run(t)
	first.refusePlan(t, true)
	second.refusePlan(t, true) // and works again
	w.run(t)
	others := func() [2]int {
		return [2]int{render.EtcdProofOthers(first.state().Plan), render.EtcdProofOthers(second.state().Plan)}
	}
	if others() != [2]int{2, 2} {
		t.Fatalf("the proofs are of %v other members", others())
	}
	delete(w.machines, "s3")
	w.run(t)
	if others() != [2]int{1, 2} {
		t.Fatalf("the proofs are of %v other members after one has left", others())
	}
	first.applyPlan()
	first.probes(true)
	w.run(t)
	if others()[1] != 1 {
		t.Errorf("the proofs are of %v other members after the first one was restarted", others())
	}
}

// Where nothing is delivered, what the node said is told.
func TestDecide_AProofOfAMachineThatIsLeftOut(t *testing.T) {
	for name, given := range map[string]func(*host){"its pool is paused": func(h *host) { h.m.PoolPaused = true }, "it is left out": func(h *host) { h.m.Skip = true }} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"s4": "etcd", "w": "worker"})
			w.edit(restartAll)
			w.run(t)
			first := w.machines["s1"]
			first.refusePlan(t, true)
			given(first)
			delete(w.machines, "s4")
			w.run(t)
			if got := first.m.Reconciled.Message; !strings.Contains(got, "etcd-healthy") || render.EtcdProofOthers(first.state().Plan) != 3 {
				t.Errorf("message %q, a proof of %d other members", got, render.EtcdProofOthers(first.state().Plan))
			}
		})
	}
}
