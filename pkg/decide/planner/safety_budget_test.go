package planner

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// failFor is an agent that has tried its plan that often.
func (h *host) failFor(attempts int) {
	h.failPlan()
	h.data[nodeplan.KeyFailureCount] = []byte(strconv.Itoa(attempts))
}

// limit is how often the agent of a host may try its plan.
func (h *host) limit() string { return string(h.data[nodeplan.KeyMaxFailures]) }

// W3: the agent tries a failing plan many times, but not forever. Then the user has to change the configuration, or
// request another try.
func TestDecide_APlanIsGivenUpAfterManyFailures(t *testing.T) {
	w := ready(t, map[string]string{"s": "etcd,control-plane", "w": "worker"})
	w.edit(restartAll)
	w.roll(t, "s")
	h := w.machines["w"]
	w.run(t)
	h.failFor(retryBudget - 1)
	if w.run(t); strings.Contains(h.m.Reconciled.Message, msgGaveUp) {
		t.Fatalf("it is said to have given up: %q", h.m.Reconciled.Message)
	}
	h.failFor(retryBudget)
	d := w.run(t)
	if got := h.m.Reconciled.Message; !strings.HasSuffix(got, msgGaveUp) ||
		!strings.Contains(got, rkev1.RetryAnnotation) || len(deliveries(d)) > 0 {
		t.Fatalf("message %q, plans to %v", got, deliveries(d))
	}
	before := w.writes
	if w.run(t); w.writes != before {
		t.Error("the planner writes again and again")
	}

	h.m.Retry = true
	if w.run(t); h.limit() != "200" {
		t.Fatalf("the agent may try %s times", h.limit())
	}
	before = w.writes
	if w.run(t); w.writes != before {
		t.Error("the plan is delivered again and again")
	}
	h.m.Retry = false
	h.failFor(2 * retryBudget)
	w.run(t)
	w.edit(restartAll)
	w.roll(t, "s")
	if w.run(t); h.limit() != "300" || h.state().Failed {
		t.Errorf("after an edit the agent may try %s times; agents count on", h.limit())
	}
	h.applyPlan()
	h.probes(true)
	w.bringUp(t)
}

// A node that waits for other etcd members has not failed: it gets its plan again, and stays as it is.
func TestDecide_ARefusedRestartIsNeverGivenUp(t *testing.T) {
	w := servers(t, map[string]string{"w": "worker"})
	w.edit(restartAll)
	w.run(t)
	h := w.machines["s1"]
	h.refusePlan(t, true)
	h.data[nodeplan.KeyFailureCount] = []byte("100")
	d := Decide(w.snapshot(t))
	if !slices.Equal(deliveries(d), []string{"s1"}) || !proves(t, d, "s1") {
		t.Errorf("plans go to %v; wait %+v", deliveries(d), d.Wait)
	}
}
