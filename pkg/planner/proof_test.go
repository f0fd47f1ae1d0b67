package planner

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

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
