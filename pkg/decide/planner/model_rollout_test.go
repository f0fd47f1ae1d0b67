package planner

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// specEdit makes a random edit that rolls through the machines or changes how they roll.
func (m *model) specEdit(rt *rapid.T) {
	m.w.cp.Generation++
	spec := &m.w.cp.Spec
	spec.ProvisionGeneration = rapid.IntRange(0, 2).Draw(rt, "generation")
	spec.AdditionalManifest = rapid.SampledFrom([]string{"", "kind: A\n", "kind: B\n"}).Draw(rt, "manifest")
	spec.UpgradeStrategy.ControlPlaneConcurrency = rapid.SampledFrom([]string{"", "1", "2", "50%", "0"}).Draw(rt,
		"servers at a time")
	spec.UpgradeStrategy.WorkerConcurrency = rapid.SampledFrom([]string{"", "1", "2", "30%", "0"}).Draw(rt,
		"workers at a time")
	spec.UpgradeStrategy.ControlPlaneDrainOptions.Enabled = rapid.Bool().Draw(rt, "drain servers")
	spec.UpgradeStrategy.WorkerDrainOptions.Enabled = rapid.Bool().Draw(rt, "drain workers")
}

// grown is a model with a working cluster.
func grown(rt *rapid.T) *model {
	m := newModel(rt)
	for _, pool := range []struct {
		name, roles string
		most        int
	}{{"s", "etcd,control-plane", 2}, {"e", "etcd", 1}, {"c", "control-plane", 2}, {"w", "worker", 3}} {
		for range rapid.IntRange(0, pool.most).Draw(rt, pool.name) {
			m.added++
			m.w.add(fmt.Sprintf("%s%d", pool.name, m.added), pool.roles).serial = m.added
		}
	}
	m.added++
	m.w.add(fmt.Sprintf("all%d", m.added), allRoles).serial = m.added
	for range 10 {
		if m.everythingRuns(rt); m.ready() {
			break
		}
	}
	return m
}

// someRun lets some hosts take one step, one of them perhaps with a failure.
func (m *model) someRun(rt *rapid.T) {
	for _, name := range m.w.names() {
		h := m.w.machines[name]
		switch rapid.IntRange(0, 11).Draw(rt, name) {
		case 0, 1, 2, 3:
		case 4:
			if h.failPlan(); rapid.Bool().Draw(rt, "refused") {
				h.refuseProof(rt)
			}
		case 5:
			h.probes(false)
		case 6:
			h.drainNode()
		default:
			h.drainNode()
			h.applyPlan()
			h.probes(true)
			h.joinCluster(m.w.cp.Spec.KubernetesVersion)
		}
	}
	m.pass(rt)
}

// refuseProof is a pass of an agent whose node does not give the proof of its plan.
func (h *host) refuseProof(rt *rapid.T) {
	if h.registered && h.hasPlan() && render.HasEtcdProof(h.state().Plan) {
		h.refusePlan(rt, true)
	}
}

// allRefuse lets most nodes refuse their proofs, and may remove one etcd machine permanently.
func (m *model) allRefuse(rt *rapid.T) {
	for _, name := range m.w.names() {
		if rapid.IntRange(0, 3).Draw(rt, name) > 0 {
			m.w.machines[name].refuseProof(rt)
		}
	}
	if h := m.pick(rt); h != nil && h.is("etcd") && !h.m.Marks.InitNode {
		delete(m.w.machines, h.m.Name)
	}
	m.pass(rt)
}

func (h *host) is(role string) bool { return h.m.Labels["rke.cattle.io/"+role+"-role"] == "true" }

// rank is the order of tiers: etcd, control plane, workers.
func (h *host) rank() int {
	switch {
	case h.is("etcd"):
		return 0
	case h.is("control-plane"):
		return 1
	}
	return 2
}

// works is true when the delivered plan is applied and all its probes pass.
func (h *host) works() bool {
	state := h.state()
	return state.InSync && !state.Failed &&
		len((&machine{Machine: &Machine{Plan: &PlanSecret{State: state}}}).unhealthyProbes()) == 0
}

func (h *host) draining() bool { return h.drain.Requested != "" || h.drain.Uncordon != "" }

// member is true when the host may hold data of etcd.
func (h *host) member() bool {
	state := h.state()
	return h.is("etcd") && !h.m.Deleting && (h.m.HasNode || h.m.Marks.JoinURL != "" || !neverApplied(&state))
}

// live are the registered machines that are not deleted.
func (m *model) live() []*host {
	var out []*host
	for _, name := range m.w.names() {
		if h := m.w.machines[name]; h.registered && !h.m.Deleting {
			out = append(out, h)
		}
	}
	return out
}

// checkRollOut checks everything that restarts or drains.
func (m *model) checkRollOut(rt *rapid.T, d Decision) {
	disturbed := map[string]bool{}
	for _, e := range d.Effects {
		switch e := e.(type) {
		case RequestDrain:
			m.checkDrain(rt, e)
			disturbed[e.Machine] = true
			m.checkDisturbance(rt, d, m.w.machines[e.Machine], "drained")
		case DeliverPlan:
			h := m.w.machines[e.Machine]
			before := h.state()
			after, err := nodeplan.Decode(e.Delivery.Plan)
			if err != nil {
				rt.Fatal(err)
			}
			m.checkServer(rt, d, h, e)
			restarts := before.PlanExists && !restartFree(&before, after) &&
				(!neverApplied(&before) || before.FailureCount > 0)
			if restarts || h.toldToProve() && !render.HasEtcdProof(after) {
				disturbed[e.Machine] = true
				m.checkDisturbance(rt, d, h, "restarted")
				m.checkDrained(rt, h, &before, render.StampsOf(after).Drain)
			}
		}
	}
	m.checkEtcd(rt, d, disturbed)
	m.checkGate(rt, disturbed)
	m.checkConcurrency(rt, disturbed)
}

// checkDisturbance checks that there is a ticket, the pool is not paused, and all machines of the tiers before work.
func (m *model) checkDisturbance(rt *rapid.T, d Decision, h *host, what string) {
	if d.Ticket == nil || !slices.ContainsFunc(ticketUIDs(d), func(uid string) bool { return uid == string(h.m.UID) }) {
		rt.Fatalf("%s is %s without a ticket", h.m.Name, what)
	}
	if h.m.PoolPaused || h.m.Skip {
		rt.Fatalf("%s is %s although its pool is paused or it is left out", h.m.Name, what)
	}
	for _, o := range m.live() {
		if o.rank() < h.rank() && !o.m.Skip && (!o.works() || o.draining()) {
			rt.Fatalf("%s is %s while %s does not work, of a tier before", h.m.Name, what, o.m.Name)
		}
	}
}

func ticketUIDs(d Decision) []string {
	var out []string
	for _, t := range d.Ticket.Machines {
		out = append(out, string(t.MachineUID))
	}
	return out
}

// checkDrain checks that the only machine, or the only machine of a needed role, is never drained.
func (m *model) checkDrain(rt *rapid.T, e RequestDrain) {
	h := m.w.machines[e.Machine]
	if !strings.Contains(e.Options, `"enabled":true`) {
		return
	}
	alone := func(role string) bool {
		return h.is(role) && !slices.ContainsFunc(m.live(), func(o *host) bool { return o != h && o.is(role) })
	}
	if len(m.live()) == 1 || alone("etcd") || alone("control-plane") {
		rt.Fatalf("%s is drained, and there is no other", e.Machine)
	}
}

// checkDrained checks that every machine that needs a drain was drained.
func (m *model) checkDrained(rt *rapid.T, h *host, before *nodeplan.State, after string) {
	strategy := m.w.cp.Spec.UpgradeStrategy
	enabled := strategy.WorkerDrainOptions.Enabled
	if h.rank() < 2 {
		enabled = strategy.ControlPlaneDrainOptions.Enabled
	}
	last := len(m.live()) == 1 || slices.ContainsFunc([]string{"etcd", "control-plane"}, func(role string) bool {
		return h.is(role) && !slices.ContainsFunc(m.live(), func(o *host) bool { return o != h && o.is(role) })
	})
	lost := h.rank() == 2 && !h.m.NodeLostSince.IsZero()
	if !enabled || last || lost || !h.m.HasNode || before.AppliedPlan == nil {
		return
	}
	if hash := render.StampsOf(*before.AppliedPlan).Drain; hash != "" && hash != after && !h.drain.isDone() {
		rt.Fatalf("%s gets a plan that asks for a drain, and is at %+v", h.m.Name, h.drain)
	}
}

// checkEtcd checks that one member restarts at a time, and only while all others are proven healthy.
func (m *model) checkEtcd(rt *rapid.T, d Decision, disturbed map[string]bool) {
	count := 0
	for name := range disturbed {
		h := m.w.machines[name]
		if !h.member() {
			continue
		}
		count++
		for _, o := range m.live() {
			// A member that does not work loses nothing next to a member that does not work, or that refused and waits
			// for it. A member that refused and keeps working is as good as a working one.
			nothingLost := h.idle() && (!h.serves() && (o.stuck() || o.refused() || h.draining() && o.idle()) ||
				o.stuck() && o.serves() && m.leavesItAt(h, o))
			if o != h && o.member() && !o.m.Skip && !nothingLost && (!o.proven() || o.draining()) {
				rt.Fatalf("etcd member %s is disturbed while %s is not healthy", name, o.m.Name)
			}
		}
	}
	m.checkLeaving(rt, disturbed)
	if count > 1 {
		rt.Fatalf("%d members of etcd are disturbed at once: %+v", count, d.Ticket)
	}
}

func (h *host) refused() bool { return (&PlanSecret{State: h.state()}).hasRefused() }

// serves is true when its member works, even if it refused its plan.
func (h *host) serves() bool {
	return h.registered && h.m.NodeLostSince.IsZero() && EtcdServes(&PlanSecret{State: h.w.judged(h)})
}

// toldToProve is true when its member works, and it has not given the proof of a plan that it may still carry out.
func (h *host) toldToProve() bool {
	state := h.state()
	return h.is("etcd") && h.serves() && render.HasEtcdProof(state.Plan) && !state.InSync
}

// proven is true when its member works with its plan. If it refuses another run of that plan, nothing restarts.
func (h *host) proven() bool { return h.serves() && h.state().InSync }

// idle is true when it does not work, and has no plan in progress.
func (h *host) idle() bool {
	state := h.state()
	return (!h.works() || !h.m.NodeLostSince.IsZero()) && (state.InSync || state.Failed || !state.PlanExists)
}

// stuck is true when it is idle and stays idle. A node that was drained for a plan that it refused stays drained.
func (h *host) stuck() bool {
	return h.idle() && (!h.draining() || h.refused() && h.drain.isDone())
}

// leavesItAt is true when the refusal of a member is final, or an operator skips the proofs of both members.
func (m *model) leavesItAt(h, o *host) bool {
	return h.m.SkipProof && o.m.SkipProof || !m.proves(o) || gaveUp(o.state())
}

// gaveUp is true when an agent that reports this no longer tries its plan.
func gaveUp(state nodeplan.State) bool {
	m := &machine{Machine: &Machine{Plan: &PlanSecret{State: state}}}
	return state.Phase == nodeplan.PhaseFailed || m.isOutOfTries()
}

// checkLeaving checks that a working member is left alone until a leaving member that does not work is gone.
func (m *model) checkLeaving(rt *rapid.T, disturbed map[string]bool) {
	for _, name := range m.w.names() {
		o := m.w.machines[name]
		joined := o.m.HasNode || o.m.Marks.JoinURL != ""
		if !o.registered || !o.m.Deleting || !o.m.Held || !joined || o.works() && o.m.NodeLostSince.IsZero() {
			continue
		}
		for other := range disturbed {
			if h := m.w.machines[other]; h.member() && h.works() && !h.draining() && h.m.NodeLostSince.IsZero() {
				rt.Fatalf("etcd member %s is disturbed while %s has not left and does not work", other, name)
			}
		}
	}
}

// checkConcurrency checks that a tier has no more machines in progress than allowed. Machines that did not work before
// do not count.
func (m *model) checkConcurrency(rt *rapid.T, disturbed map[string]bool) {
	strategy := m.w.cp.Spec.UpgradeStrategy
	for rank, limit := range []string{"1", strategy.ControlPlaneConcurrency, strategy.WorkerConcurrency} {
		counted, busy, fresh := 0, 0, 0
		for _, h := range m.live() {
			if h.rank() != rank || h.m.Skip {
				continue
			}
			counted++
			state := h.state()
			silent := rank == 2 && state.PlanExists && !state.InSync && (!h.m.HasNode || !h.m.NodeLostSince.IsZero())
			switch {
			case disturbed[h.m.Name] && h.works() && !h.draining() && (rank > 0 || h.m.NodeLostSince.IsZero()):
				fresh++
			case state.AppliedPlan != nil && (!state.InSync || h.draining()) && !silent && !disturbed[h.m.Name]:
				busy++
			}
		}
		if allowed := concurrency(limit, counted); fresh > 0 && allowed > 0 && busy+fresh > allowed {
			rt.Fatalf("%d machines of tier %d are begun while %d are at work; %d are allowed", fresh, rank, busy,
				allowed)
		}
	}
}

// checkGate checks that no working machine begins while a machine of its tier does not work with the desired plan. A
// machine has that plan when it gets no other. A waiting machine looks the same, so only a failed plan is certain. An
// unreadable Secret affects only its own machine, because its failure is unknown.
func (m *model) checkGate(rt *rapid.T, disturbed map[string]bool) {
	for name := range disturbed {
		h := m.w.machines[name]
		if !h.works() || h.draining() || h.rank() == 0 {
			continue
		}
		for _, o := range m.live() {
			state, err := o.parse()
			if err == nil && o.rank() == h.rank() && !o.m.Skip && !o.m.PoolPaused && state.Failed &&
				!disturbed[o.m.Name] {
				rt.Fatalf("%s is begun although %s failed with its plan", name, o.m.Name)
			}
		}
	}
}

// checkServer checks that a worker stays with its server while that can be joined.
func (m *model) checkServer(rt *rapid.T, d Decision, h *host, e DeliverPlan) {
	joined := h.m.Marks.JoinedTo
	if h.rank() != 2 || joined == "" || e.Marks.JoinedTo == joined {
		return
	}
	for _, o := range m.live() {
		url := o.m.Marks.JoinURL
		for _, mark := range d.Effects {
			if mark, ok := mark.(MarkMachine); ok && mark.Machine == o.m.Name {
				url = mark.Marks.JoinURL
			}
		}
		if url == joined && o.is("control-plane") {
			rt.Fatalf("worker %s moves from %s to %s for no reason", h.m.Name, joined, e.Marks.JoinedTo)
		}
	}
}

// checkTimer checks that, when nothing is to be done, time alone changes that only at the announced moment. Before
// that, no pass would run.
func checkTimer(rt *rapid.T, s Snapshot, d Decision) {
	if len(d.Effects) > 0 || d.Ticket != nil || !reflect.DeepEqual(d.Status, s.ControlPlane.Status) {
		return
	}
	asleep := 30 * 24 * time.Hour
	if d.Wait != nil && d.Wait.After > 0 {
		asleep = d.Wait.After - time.Second
	}
	s.Now = s.Now.Add(max(0, asleep))
	later := Decide(s)
	if len(later.Effects) > 0 || later.Ticket != nil || !reflect.DeepEqual(later.Status, s.ControlPlane.Status) {
		rt.Fatalf("after %s the planner would act, but no pass runs by then: %s: %+v; the wait is %+v",
			asleep, later.Step, later.Effects, d.Wait)
	}
}
