package planner

import (
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// A drain that does not end, for example against an API that does not answer, needs the user after a while. Until the
// user decides, nothing happens to the node.
func TestDecide_ADrainThatDoesNotEnd(t *testing.T) {
	w := ready(t, map[string]string{"s": "etcd,control-plane", "w": "worker"})
	w.edit(func(s *rkev1.RKEControlPlaneSpec) {
		s.UpgradeStrategy.WorkerDrainOptions = rkev1.DrainOptions{Enabled: true, Timeout: 60}
		s.ProvisionGeneration++
	})
	w.roll(t, "s")
	h := w.machines["w"]
	w.run(t)
	h.drain.Error = "reach the cluster: no answer"
	d := w.run(t)
	if d.Wait.Reason != ReasonDraining || d.Wait.Failed || d.Wait.After <= 0 || d.Wait.After > time.Minute+drainGrace {
		t.Fatalf("it has just begun, and is looked at again in time: %+v", d.Wait)
	}
	w.now = h.drain.Since.Add(time.Minute + drainGrace)
	d = w.run(t)
	for _, want := range []string{
		"draining worker node(s) w: draining node: reach the cluster: no answer; asked for since 2026-",
		"drover.io/drain-skip=true"} {
		if !strings.Contains(d.Wait.Message, want) {
			t.Errorf("message %q lacks %q", d.Wait.Message, want)
		}
	}
	if d.Wait.Reason != ReasonDrainOverdue || !d.Wait.Failed || h.hasPlan() {
		t.Fatalf("the node gets its plan: %v; wait %+v", h.hasPlan(), d.Wait)
	}
	before := w.writes
	w.now = w.now.Add(time.Hour)
	if d = w.run(t); w.writes != before {
		t.Errorf("the planner writes again and again: %+v", d.Effects)
	}
	h.m.SkipDrain = true
	if w.run(t); !h.hasPlan() {
		t.Fatal("the operator does not wait for the drain, the planner does")
	}
	h.applyPlan()
	h.probes(true)
	if d = w.run(t); d.Wait != nil || h.drain.Uncordon == "" {
		t.Errorf("the planner waits for the uncordon, or does not request it: %+v; wait %+v", h.drain, d.Wait)
	}
}

// A drain that an earlier program began has no known start, but it and its end can still become overdue.
func TestDecide_ADrainOfWhichNobodyKnowsItsBeginning(t *testing.T) {
	for name, tc := range map[string]struct {
		delivered bool // it is known when the machine's plan came
		uncordon  bool
		want      Reason
	}{
		"a drain":                       {true, false, ReasonDrainOverdue},
		"the end of one":                {true, true, ReasonDrainOverdue},
		"nothing is known of its plan":  {false, false, ReasonDraining},
		"nor at the end of one of them": {false, true, ReasonUncordoning},
	} {
		t.Run(name, func(t *testing.T) {
			w := draining(t)
			h := w.machines["w1"]
			if tc.uncordon {
				h.drainNode()
				w.run(t)
				h.applyPlan()
				h.probes(true)
				w.run(t)
			}
			h.drain.Since = time.Time{}
			if !tc.delivered {
				h.delivered = time.Time{}
			}
			w.now = w.now.Add(lostAfter + drainGrace)
			d := Decide(w.snapshot(t))
			if d.Wait.Reason != tc.want ||
				strings.Contains(d.Wait.Message, "some time after 2026-") != (tc.want == ReasonDrainOverdue) {
				t.Errorf("wait is %+v", d.Wait)
			}
		})
	}
}

func TestDecide_AnUncordonThatDoesNotEnd(t *testing.T) {
	w := draining(t)
	h := w.machines["w1"]
	h.drainNode()
	w.run(t)
	h.applyPlan()
	h.probes(true)
	if d := w.run(t); d.Wait.Reason != ReasonUncordoning {
		t.Fatalf("wait is %+v", d.Wait)
	}
	w.now = w.now.Add(drainGrace)
	d := w.run(t)
	if d.Wait.Reason != ReasonDrainOverdue ||
		!strings.Contains(d.Wait.Message, "waiting for uncordon to finish; asked for since 2026-") {
		t.Errorf("wait is %+v", d.Wait)
	}
	h.m.SkipDrain = true
	if w.run(t); w.machines["w2"].drain.Requested == "" {
		t.Error("the next machine waits for it")
	}
}
