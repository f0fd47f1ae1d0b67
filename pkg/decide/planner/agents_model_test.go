package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// agentModel makes random requests for agents, and lets nodes carry them out or fail.
type agentModel struct {
	w *world
	// stamps are the stamps of each machine before any request.
	stamps map[string]render.Stamps
	// failed are the requests that failed on a machine, and the machines that had begun by then.
	failed map[string]map[string]bool
	serial int
}

// TestModel_NoAgentUpgradeBreaksAnInvariant: an upgrade of agents restarts nothing else, goes to one machine of a small
// cluster at a time, and stops at a failure (I32). This holds for all requests and all nodes.
func TestModel_NoAgentUpgradeBreaksAnInvariant(t *testing.T) {
	t.Parallel()
	ready := agentWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := &agentModel{w: ready.copy(), stamps: map[string]render.Stamps{}, failed: map[string]map[string]bool{}}
		for name, h := range m.w.machines {
			m.stamps[name] = render.StampsOf(h.state().Plan)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"":                m.check,
			"request":         m.request,
			"a newer server":  m.newerServer,
			"nodes apply":     m.nodesApply,
			"a node reports":  m.nodeReports,
			"time passes":     func(*rapid.T) { m.w.now = m.w.now.Add(agentDeadline / 2) },
			"pause or resume": func(*rapid.T) { m.w.cluster.Paused = !m.w.cluster.Paused },
			"leave out": func(rt *rapid.T) {
				h := m.w.machines[rapid.SampledFrom(m.w.names()).Draw(rt, "machine")]
				h.m.Skip = !h.m.Skip
			},
		})
	})
}

// copy is a world of its own in the same state.
func (w *world) copy() *world {
	out := *w
	out.memo, out.machines = &render.Memo{}, map[string]*host{}
	cluster := *w.cluster
	out.cluster, out.cp.Status = &cluster, *w.cp.Status.DeepCopy()
	for name, h := range w.machines {
		other := *h
		out.machines[name] = &other
	}
	return &out
}

func (m *agentModel) pass(rt *rapid.T) {
	m.w.now = m.w.now.Add(time.Second)
	m.w.apply(Decide(m.w.snapshot(rt)))
}

func (m *agentModel) request(rt *rapid.T) {
	m.serial++
	switch rapid.IntRange(0, 2).Draw(rt, "kind") {
	case 0:
		m.w.agents.Command = fmt.Sprint("request ", m.serial)
	case 1:
		m.w.agents.Redeploy = int64(m.serial)
	default:
		m.w.agents.Auto = !m.w.agents.Auto
	}
	m.pass(rt)
}

func (m *agentModel) newerServer(rt *rapid.T) {
	m.serial++
	m.w.agents.Offer = offer(fmt.Sprint("v", m.serial))
	m.pass(rt)
}

func (m *agentModel) nodesApply(rt *rapid.T) {
	for _, h := range m.w.machines {
		h.applyPlan()
		h.probes(true)
	}
	m.pass(rt)
}

func (m *agentModel) nodeReports(rt *rapid.T) {
	waiting := m.w.upgrading()
	if len(waiting) == 0 {
		rt.Skip()
	}
	name := rapid.SampledFrom(waiting).Draw(rt, "machine")
	result := rapid.SampledFrom([]string{"succeeded", "succeeded", "failed: broken"}).Draw(rt, "result")
	m.w.machines[name].upgradeAgent(result)
	// The report may be about an upgrade that a newer request has replaced. A machine that is only late may succeed.
	progress, why := m.progress(rt, name)
	if key := m.requests(); key == m.answered(name) && progress == agentFailed && !strings.HasPrefix(why, msgSilent) {
		m.failed[key] = map[string]bool{}
		for other := range m.w.machines {
			if m.answered(other) == key {
				m.failed[key][other] = true
			}
		}
	}
	m.pass(rt)
}

// requests identifies the present requests, and answered those that a machine is pinned to.
func (m *agentModel) requests() string {
	pin := m.w.agents.noted(render.AgentPin{})
	return fmt.Sprint(pin.Command, pin.Redeploy, pin.Auto)
}

func (m *agentModel) answered(name string) string {
	pin := render.ParseAgentPin(m.w.machines[name].m.Marks.AgentPin)
	return fmt.Sprint(pin.Command, pin.Redeploy, pin.Auto)
}

// progress is how far a machine is with the agent that it is pinned to, and why it failed.
func (m *agentModel) progress(rt *rapid.T, name string) (agentProgress, string) {
	pin := render.ParseAgentPin(m.w.machines[name].m.Marks.AgentPin)
	return newCluster(new(m.w.snapshot(rt))).agentResult(newMachine(new(m.w.snapshotOf(rt, name))), pin)
}

func (m *agentModel) check(rt *rapid.T) {
	begun := 0
	for name, h := range m.w.machines {
		plan := h.state().Plan
		if got := render.StampsOf(plan); got != m.stamps[name] || h.drains > 0 {
			rt.Fatalf("I32: the upgrade of an agent restarts or drains %s", name)
		}
		if status, _ := m.w.condition(ConditionAgentsUpgraded); h.requestedID() != "" && status == "" {
			rt.Fatalf("I32: %s is upgraded without a request", name)
		}
		if progress, _ := m.progress(rt, name); progress == agentPending {
			begun++
		}
		for request, had := range m.failed {
			if m.answered(name) == request && !had[name] {
				rt.Fatalf("I32: %s is upgraded after the failure of the same request", name)
			}
		}
	}
	if begun > 1 {
		rt.Fatalf("I32: %d agents are upgraded at a time", begun)
	}
	if ready, message := m.w.condition(rkev1.ConditionReady); ready == rkev1.ConditionFalse {
		rt.Fatalf("I32: the upgrade of an agent is a failure of the cluster: %s", message)
	}
}

func (w *world) snapshotOf(rt *rapid.T, name string) Machine {
	s := w.snapshot(rt)
	for _, m := range s.Machines {
		if m.Name == name {
			return m
		}
	}
	rt.Fatalf("no machine %s", name)
	return Machine{}
}
