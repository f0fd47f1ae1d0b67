package planner

import (
	"strings"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// A machine that was drained for a change that failed elsewhere does not get it: it is uncordoned, and waits like the
// others.
func TestDecide_TheFailedGateStopsThoseThatWereDrained(t *testing.T) {
	for name, tc := range map[string]struct {
		fails     func(w *world, h *host)
		wantStops bool
	}{
		"its plan failed":           {func(_ *world, h *host) { h.failPlan() }, true},
		"it does not work for long": {func(w *world, h *host) { h.applyPlan(); w.now = w.now.Add(lostAfter) }, true},
		"it does not work yet":      {func(_ *world, h *host) { h.applyPlan() }, false},
		"it works":                  {func(_ *world, h *host) { h.applyPlan(); h.probes(true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, map[string]string{"s": "etcd,control-plane", "w1": "worker", "w2": "worker", "w3": "worker"})
			w.edit(func(s *rkev1.RKEControlPlaneSpec) {
				s.UpgradeStrategy.WorkerDrainOptions.Enabled, s.UpgradeStrategy.WorkerConcurrency = true, "2"
				s.ProvisionGeneration++
			})
			w.roll(t, "s")
			w1, w2, w3 := w.machines["w1"], w.machines["w2"], w.machines["w3"]
			w1.drainNode()
			w.run(t)
			tc.fails(w, w1)
			w2.drainNode()
			w.run(t)
			if w2.hasPlan() == tc.wantStops || w3.hasPlan() {
				t.Fatalf("w2 gets the change: %v, w3: %v", w2.hasPlan(), w3.hasPlan())
			}
			if !tc.wantStops {
				return
			}
			if w2.drain.Uncordon == "" {
				t.Errorf("w2 stays drained: %+v", w2.drain)
			}
			w2.drainNode()
			w.run(t)
			if got := w2.m.Reconciled.Message; got != "configuration change pending" || w2.drain != (Drain{}) {
				t.Errorf("w2 says %q, and is at %+v", got, w2.drain)
			}
			if _, message := w.condition("Ready"); !strings.HasPrefix(message, "configuring worker node(s) w1: ") ||
				!strings.HasSuffix(message, "; the change goes to no other machine while it does not work on w1") {
				t.Errorf("the cluster says %q", message)
			}
			w1.applyPlan()
			w1.probes(true)
			w.bringUp(t)
			if w2.drains < 2 {
				t.Errorf("w2 was drained %d times", w2.drains)
			}
		})
	}
}
