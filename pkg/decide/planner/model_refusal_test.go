package planner

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// attemptsInARound is how often an agent tries a plan that it refuses in one round. Three rounds use up its budget.
const attemptsInARound = 40

// agentsRun is a round in which every node works, gives true proofs, and tries refused plans only so often. No drain is
// skipped and no machine is left out.
func (m *model) agentsRun(rt *rapid.T) {
	for _, name := range m.w.names() {
		h := m.w.machines[name]
		retry := h.m.Retry && h.refused()
		h.comeBack()
		h.m.Retry = retry
	}
	for _, name := range m.w.names() {
		h := m.w.machines[name]
		switch state := h.state(); {
		case h.hasPlan() && gaveUp(state):
			h.m.Retry = !h.refused() // the user requests everything except what waits for others
			continue
		case h.hasPlan() && !m.proves(h):
			h.refusePlan(rt, true)
			h.report(nodeplan.KeyFailureCount, []byte(strconv.Itoa(state.FailureCount+attemptsInARound)))
			continue
		}
		m.catchUp(h)
	}
	m.w.connected = true
	m.w.now = m.w.now.Add(time.Minute)
	m.pass(rt)
}

// proves reports that the node of a machine gives the proof of its plan when all other existing members work.
func (m *model) proves(h *host) bool {
	proof, there := render.EtcdProofOf(h.state().Plan), 0
	for _, o := range m.w.machines {
		if state := o.state(); o != h && o.is("etcd") && (o.m.HasNode || !neverApplied(&state)) {
			there++
		}
	}
	proof.Others = max(proof.Others, there)
	return !render.HasEtcdProof(h.state().Plan) || there >= proof.Needs()
}

// initNodeLeaves removes the machine of the init node when another one has the data.
func (m *model) initNodeLeaves() {
	for _, name := range m.w.names() {
		if !m.w.machines[name].m.Marks.InitNode {
			continue
		}
		if slices.ContainsFunc(m.live(), func(o *host) bool {
			return o.m.Name != name && o.member() && o.m.Marks.JoinURL != "" && o.state().AppliedPlan != nil
		}) {
			delete(m.w.machines, name)
		}
	}
}

// When all machines work and none leaves any more, the cluster becomes ready without user action, whatever happened
// before. Nodes keep refusing proofs that are not true, and agents do not try forever.
func TestModel_WhoRefusedWaitsForNobodyForEver(t *testing.T) {
	explore(t, 30, func(rt *rapid.T, walk *walk) {
		m := grown(rt)
		all := m.actions(rt)
		actions := map[string]func(*rapid.T){}
		for _, name := range []string{
			"all refuse", "proof refused", "attempts are over", "probes", "drainer", "spec edit", "some run",
			"some run again", "pass", "another edit", "proof is skipped",
			"a state machine gave up", "left out", "node is lost or found", "node cannot be seen", "pool",
			"time goes by", "everything runs",
		} {
			actions[name] = all[name]
		}
		walk.repeat(rt, actions)
		if rapid.Bool().Draw(rt, "the init node leaves") {
			m.initNodeLeaves()
		}
		m.w.addBare("a-server", allRoles).serial = 200
		m.w.addBare("a-worker", "worker").serial = 201
		for range 150 {
			if m.agentsRun(rt); m.ready() {
				return
			}
		}
		for _, name := range m.w.names() {
			h := m.w.machines[name]
			state := h.state()
			rt.Logf("%s: has a plan %t, failed %t, %d of %d attempts, refused %t of %d others, %+v: %s", name,
				h.hasPlan(), state.Failed, state.FailureCount,
				state.MaxFailures, h.refused(), othersOf(h), h.drain, h.m.Reconciled.Message)
		}
		_, message := m.w.condition("Ready")
		rt.Fatalf("never ready: %s", message)
	})
}
