package planner

import (
	"slices"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// The states of a machine and of its etcd member follow from the report of its agent, its drain and its deletion.
func TestExplain_States(t *testing.T) {
	deleted := func(h *host) { h.m.Deleting, h.m.Held = true, true }
	unknown := func(h *host) { h.m.HasNode, h.m.Marks = false, Marks{} }
	absent := func(h *host) { unknown(h); h.registered = false }
	damaged := func(h *host) { h.report("probe-statuses", []byte("{")) }
	for name, tc := range map[string]struct {
		edited bool // it gets a plan that restarts it
		given  func(h *host)
		state  State
		member MemberState
	}{
		"all is well":           {false, func(*host) {}, StateHealthy, MemberHealthy},
		"a probe fails":         {false, func(h *host) { h.probes(false) }, StateUnhealthy, MemberDown},
		"its node is lost":      {false, func(h *host) { h.m.NodeLostSince = h.delivered }, StateHealthy, MemberDown},
		"its node is drained":   {false, func(h *host) { h.drain.Requested = "{}" }, StateHealthy, MemberChanging},
		"it has a plan":         {true, func(*host) {}, StateApplying, MemberChanging},
		"its plan failed":       {true, func(h *host) { h.failPlan() }, StateFailed, MemberDown},
		"it refused its plan":   {true, func(h *host) { h.refusePlan(t, true) }, StateRefused, MemberRefused},
		"it is being deleted":   {false, deleted, StateHealthy, MemberHealthy},
		"it is broken and goes": {false, func(h *host) { deleted(h); h.probes(false) }, StateUnhealthy, MemberLeaving},
		"it has left etcd":      {false, func(h *host) { h.m.Deleting = true }, StateHealthy, MemberAbsent},
		"it has no plan":        {false, func(h *host) { unknown(h); h.data = nil }, StateNew, MemberAbsent},
		"it is absent":          {false, absent, StateUnregistered, MemberAbsent},
		"it is only a worker":   {false, func(h *host) { h.m.Labels[rkev1.EtcdRoleLabel] = "" }, StateHealthy, ""},
		"its secret is damaged": {false, damaged, StateUnreadable, MemberDown},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			if tc.edited {
				w.edit(restartAll)
				w.run(t)
			}
			tc.given(w.machines["s1"])
			machines := Explain(w.snapshot(t)).Machines
			m := machines[slices.IndexFunc(machines, func(m ExplainedMachine) bool { return m.Name == "s1" })]
			if m.State != tc.state || m.Member != tc.member {
				t.Errorf("state %s, member %s; want %s and %s", m.State, m.Member, tc.state, tc.member)
			}
		})
	}
}
