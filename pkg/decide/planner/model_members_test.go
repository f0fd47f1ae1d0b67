package planner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// The progress of a server with its restarting plan when the trial begins.
const (
	hasNone  = "has none"
	isDown   = "has none, and its member is down"
	hasIt    = "has it, and has said nothing yet"
	refuses  = "refuses it"
	gaveItUp = "refused it until it gave up"
	failsIt  = "proved it and failed later"
	isDone   = "has carried it out"
)

var standings = []string{hasNone, isDown, hasIt, refuses, gaveItUp, failsIt, isDone}

// restarting is a plan of each server that restarts it, with its proof, as the servers get it one after the other.
type restarting map[string]struct {
	data     map[string][]byte
	evidence string
}

func restartingServers(t *testing.T) (*world, restarting) {
	t.Helper()
	w, out := servers(t, map[string]string{"w": "worker"}), restarting{}
	w.edit(restartAll)
	for _, name := range []string{"s1", "s2", "s3"} {
		w.run(t)
		h := w.machines[name]
		if !h.hasPlan() || !render.HasEtcdProof(h.state().Plan) {
			t.Fatalf("%s has no plan with a proof", name)
		}
		one := out[name]
		one.data, one.evidence = maps.Clone(h.data), h.evidence
		out[name] = one
		h.applyPlan()
		h.probes(true)
	}
	return w, out
}

// trial is a cluster of three servers during a rollout. It knows which members are really up, which may differ from the
// reports.
type trial struct {
	*world
	t    *testing.T
	rt   *rapid.T
	up   map[string]bool
	told []string
	// racing are servers that may give their proof at any moment by the plans that they had when the trial began. Two
	// of them may do so at the same time, which no manager can prevent.
	racing map[string]bool
	// leftOut is true when some server is left out of the rollout.
	leftOut bool
}

func newTrial(t *testing.T, rt *rapid.T, plans restarting) *trial {
	t.Helper()
	tr := &trial{world: servers(t, map[string]string{"w": "worker"}), t: t, rt: rt, up: map[string]bool{},
		racing: map[string]bool{}}
	tr.edit(restartAll)
	drains := rapid.Bool().Draw(rt, "drains")
	if drains {
		tr.edit(drainServers)
	}
	for _, name := range tr.servers() {
		h := tr.machines[name]
		tr.place(h, plans, rapid.SampledFrom(standings).Draw(rt, name))
		if drains {
			h.drain = rapid.SampledFrom([]Drain{
				{}, drained, {Requested: drained.Requested}, {Requested: drained.Requested, Done: drained.Done,
					Uncordon: drained.Requested},
			}).Draw(rt, name+" drain")
		}
		h.m.SkipProof = rapid.IntRange(0, 2).Draw(rt, name+" overridden") == 2
		h.m.Skip = rapid.IntRange(0, 5).Draw(rt, name+" left out") == 5
		if h.m.Skip && rapid.Bool().Draw(rt, name+"'s kubelet is off") {
			h.m.NodeLostSince = tr.now
		}
		tr.leftOut = tr.leftOut || h.m.Skip
	}
	switch rapid.SampledFrom([]string{"none", "one that mends", "one that restarts nothing"}).Draw(rt, "edit") {
	case "one that mends":
		tr.edit(mendAll)
	case "one that restarts nothing":
		tr.edit(func(s *rkev1.RKEControlPlaneSpec) { s.AdditionalManifest = "kind: A\n" })
	}
	return tr
}

func (tr *trial) servers() []string { return []string{"s1", "s2", "s3"} }

// place brings a server to its progress at the beginning of the trial.
func (tr *trial) place(h *host, plans restarting, standing string) {
	tr.up[h.m.Name] = standing != isDown
	switch standing {
	case hasNone:
		return
	case isDown:
		tr.report(h)
		return
	}
	of := plans[h.m.Name]
	h.data, h.evidence, h.delivered = maps.Clone(of.data), of.evidence, tr.now
	switch standing {
	case hasIt:
		tr.racing[h.m.Name] = true
	case refuses:
		tr.racing[h.m.Name] = true
		h.refusePlan(tr.rt, true)
	case gaveItUp:
		h.refusePlan(tr.rt, true)
		h.spend()
	case failsIt:
		tr.racing[h.m.Name] = true
		h.failPlan()
	case isDone:
		h.applyPlan()
		h.probes(true)
	}
}

// report writes the report of a server's node.
func (tr *trial) report(h *host) {
	statuses := map[string]plan.ProbeStatus{}
	for name := range h.state().Plan.Probes {
		statuses[name] = plan.ProbeStatus{Healthy: tr.up[h.m.Name]}
	}
	h.data = maps.Clone(h.data)
	h.data[nodeplan.KeyProbeStatuses], _ = nodeplan.EncodeProbeStatuses(statuses)
	h.probesSeen = h.probesSeen || tr.up[h.m.Name]
}

// working is how many members are up, without the named ones.
func (tr *trial) working(but ...string) int {
	count := 0
	for name, up := range tr.up {
		if up && (len(but) == 0 || but[0] != name) {
			count++
		}
	}
	return count
}

// proves reports that the node of a server carries its plan out.
func (tr *trial) proves(h *host) bool {
	proof := render.EtcdProofOf(h.state().Plan)
	proof.Others = max(proof.Others, len(tr.up)-1)
	return !render.HasEtcdProof(h.state().Plan) || !tr.up[h.m.Name] || tr.working() > len(tr.up)/2 &&
		tr.working(h.m.Name) >= proof.Needs()
}

// agents is a round of agents, some of them slow. All see the state at its beginning.
func (tr *trial) agents() {
	var restarted []string
	var then []func()
	for _, name := range tr.servers() {
		h := tr.machines[name]
		state := h.state()
		h.drainNode()
		if !h.hasPlan() || gaveUp(state) || rapid.IntRange(0, 2).Draw(tr.rt, name+" is slow") == 2 {
			continue
		}
		if !tr.proves(h) {
			then = append(then, func() {
				h.refusePlan(tr.rt, true)
				h.report(nodeplan.KeyFailureCount, []byte(strconv.Itoa(state.FailureCount+attemptsInARound)))
			})
			continue
		}
		if tr.up[name] &&
			(state.AppliedPlan == nil || !restartFree(&nodeplan.State{Plan: *state.AppliedPlan}, state.Plan)) {
			restarted = append(restarted, name)
		}
		then = append(then, func() {
			tr.up[name] = true
			delete(tr.racing, name)
			h.applyPlan()
			h.probes(true)
		})
	}
	if quorum := len(tr.up)/2 + 1; !tr.race(restarted) && len(restarted) > 0 &&
		(len(restarted) > 1 || tr.working() >= quorum && tr.working()-1 < quorum) {
		tr.rt.Fatalf("%v are restarted while %d members work\n%v", restarted, tr.working(), tr.told)
	}
	for _, act := range then {
		act()
	}
	w := tr.machines["w"]
	w.drainNode()
	w.applyPlan()
	w.probes(true)
	for _, name := range tr.servers() {
		if h := tr.machines[name]; !h.hasPlan() {
			tr.report(h)
		}
	}
}

// race reports that several servers restart by the plans that they had when the trial began.
func (tr *trial) race(restarted []string) bool {
	return len(restarted) > 1 && !slices.ContainsFunc(restarted, func(name string) bool { return !tr.racing[name] })
}

// settle makes passes until nothing is left to do, and reports that the rollout is complete.
func (tr *trial) settle() bool {
	for range 12 {
		before := tr.writes
		if d := tr.pass(tr.t); d.Wait == nil {
			return true
		} else if tr.writes == before {
			tr.told = append(tr.told, fmt.Sprintf("%s: %s", d.Step, d.Wait.Message))
			return false
		}
	}
	return false
}

// In every stage of a rollout and with every override, members restart one at a time, only while the others work
// without them, and the rollout completes.
func TestModel_MembersAreRestartedOneAfterTheOther(t *testing.T) {
	_, plans := restartingServers(t)
	explore(t, 10, func(rt *rapid.T, walk *walk) {
		tr := newTrial(t, rt, plans)
		for range 80 {
			walk.steps++
			if tr.settle() {
				return
			}
			tr.now = tr.now.Add(15 * time.Minute)
			tr.agents()
		}
		if !tr.leftOut {
			rt.Fatalf("never over: %v", tr.told[max(0, len(tr.told)-3):])
		}
	})
}
