package planner

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Invariant 8, in random worlds: every restart of one of several etcd members needs a proof on the node, and a working
// member is left alone while another one cannot be seen.
func TestModel_EveryRestartOfAMemberIsProven(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := grown(rt)
		actions := m.actions(rt)
		actions["sometimes a node cannot be seen"] = func(rt *rapid.T) {
			if h := m.pick(rt); h != nil {
				h.m.NodeUnknown = h.m.HasNode && rapid.Bool().Draw(rt, "unknown")
			}
		}
		actions["the connection is down"] = func(*rapid.T) {
			for _, h := range m.w.machines {
				h.m.NodeUnknown = h.m.HasNode
			}
		}
		actions[""] = m.checkProofs
		rt.Repeat(actions)
	})
}

// checkProofs checks what would be delivered now.
func (m *model) checkProofs(rt *rapid.T) {
	for _, e := range Decide(m.w.snapshot(rt)).Effects {
		e, ok := e.(DeliverPlan)
		if !ok {
			continue
		}
		h := m.w.machines[e.Machine]
		before := h.state()
		after, err := nodeplan.Decode(e.Delivery.Plan)
		if err != nil {
			rt.Fatal(err)
		}
		if !h.member() || !before.PlanExists || restartFree(&before, after) {
			continue
		}
		others := slices.DeleteFunc(m.live(), func(o *host) bool { return o == h || !o.member() })
		if len(others) > 0 && !render.HasEtcdProof(after) {
			rt.Fatalf("%s is restarted without a proof, while %s is a member", h.m.Name, others[0].m.Name)
		}
		for _, o := range others {
			if h.works() && h.m.NodeLostSince.IsZero() && !h.draining() && o.m.NodeUnknown && !o.m.Skip &&
				m.servesAPI() {
				rt.Fatalf("%s is restarted while the node of %s cannot be seen", h.m.Name, o.m.Name)
			}
		}
	}
}

// servesAPI reports that an API server works, according to the agents.
func (m *model) servesAPI() bool {
	return slices.ContainsFunc(m.live(), func(h *host) bool {
		state := h.state()
		return h.is("control-plane") && state.InSync && state.ProbeStatuses[render.ProbeAPIServer].Healthy
	})
}
