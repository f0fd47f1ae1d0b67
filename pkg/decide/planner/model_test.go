package planner

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// model drives a world at random and checks the invariants after every decision.
type model struct {
	w *world
	// tokens, first plans and server URLs as first seen.
	tokens    Tokens
	delivered bool
	inits     map[string]bool // machines that ever got a plan without a server
	added     int
	// caches are nil while the manager sees everything.
	caches *caches
}

func newModel(rt *rapid.T) *model {
	version := rapid.SampledFrom([]string{rke2Version, k3sVersion}).Draw(rt, "version")
	return &model{w: newWorld(version), inits: map[string]bool{}}
}

// pick draws one of the machines, nil when there is none.
func (m *model) pick(rt *rapid.T) *host {
	names := m.w.names()
	if len(names) == 0 {
		return nil
	}
	return m.w.machines[rapid.SampledFrom(names).Draw(rt, "machine")]
}

// actions are the possible actions of everything outside the planner.
func (m *model) actions(rt *rapid.T) map[string]func(*rapid.T) {
	onHost := func(f func(*rapid.T, *host)) func(*rapid.T) {
		return func(rt *rapid.T) {
			if h := m.pick(rt); h != nil {
				f(rt, h)
			}
		}
	}
	return map[string]func(*rapid.T){
		"add a machine": func(rt *rapid.T) {
			roles := rapid.SampledFrom([]string{allRoles, "etcd,control-plane", "etcd", "control-plane", "worker",
				"worker", "etcd,worker"}).Draw(rt, "roles")
			if len(m.w.machines) < 9 {
				m.w.addBare(fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"a", "m", "z"}).Draw(rt, "prefix"), m.added),
					roles).serial = m.added + 1
				m.added++
			}
		},
		"register":     onHost(func(_ *rapid.T, h *host) { h.registered = true }),
		"host exists":  onHost(func(_ *rapid.T, h *host) { h.m.InfrastructureReady = true }),
		"host is lost": onHost(func(rt *rapid.T, h *host) { h.m.InfrastructureReady = rapid.Bool().Draw(rt, "ready") }),
		"machine fails": onHost(func(rt *rapid.T, h *host) {
			h.m.Phase = rapid.SampledFrom([]string{"Failed", "Running"}).Draw(rt, "phase")
		}),
		"plan applied":  onHost(func(_ *rapid.T, h *host) { h.applyPlan() }),
		"plan failed":   onHost(func(_ *rapid.T, h *host) { h.failPlan() }),
		"proof refused": onHost(func(rt *rapid.T, h *host) { h.refuseProof(rt) }),
		"attempts are over": onHost(func(_ *rapid.T, h *host) {
			if h.hasPlan() && h.data[nodeplan.KeyMaxFailures] != nil {
				h.report(nodeplan.KeyFailureCount, h.data[nodeplan.KeyMaxFailures])
			}
		}),
		"probes":             onHost(func(rt *rapid.T, h *host) { h.probes(rapid.Bool().Draw(rt, "healthy")) }),
		"node found":         onHost(func(_ *rapid.T, h *host) { h.joinCluster(m.w.cp.Spec.KubernetesVersion) }),
		"address captured":   onHost(func(_ *rapid.T, h *host) { h.captureAddress() }),
		"agent restarted":    onHost(func(_ *rapid.T, h *host) { h.report(nodeplan.KeyAppliedChecksum, nil) }),
		"machine is deleted": onHost(func(_ *rapid.T, h *host) { h.m.Deleting, h.m.Held = true, h.is("etcd") }),
		"member has left":    onHost(func(_ *rapid.T, h *host) { h.m.Held = false }),
		"machine is gone": onHost(func(_ *rapid.T, h *host) {
			if h.m.Deleting {
				delete(m.w.machines, h.m.Name)
			}
		}),
		"garbage in the secret": onHost(func(rt *rapid.T, h *host) {
			if h.data != nil {
				h.report(rapid.SampledFrom([]string{nodeplan.KeyProbeStatuses, nodeplan.KeyAppliedPeriodicOutput,
					nodeplan.KeyFailureCount}).Draw(rt, "key"), []byte("{"))
			}
		}),
		"secret repaired": onHost(func(_ *rapid.T, h *host) {
			for _, key := range []string{nodeplan.KeyProbeStatuses, nodeplan.KeyAppliedPeriodicOutput,
				nodeplan.KeyFailureCount} {
				h.report(key, nil)
			}
		}),
		"connected": func(rt *rapid.T) { m.w.connected = rapid.Bool().Draw(rt, "connected") },
		"pause":     func(rt *rapid.T) { m.w.cluster.Paused = rapid.Bool().Draw(rt, "paused") },
		"spec edit": m.specEdit,
		"node is lost or found": onHost(func(rt *rapid.T, h *host) {
			if h.m.NodeLostSince = (time.Time{}); h.m.HasNode && rapid.Bool().Draw(rt, "lost") {
				h.m.NodeLostSince = m.w.now
			}
		}),
		"node cannot be seen": onHost(func(rt *rapid.T, h *host) {
			if h.m.NodeUnknown, h.m.NodeUnknownSince = rapid.Bool().Draw(rt, "unknown"),
				(time.Time{}); h.m.NodeUnknown && rapid.Bool().Draw(rt, "since") {
				h.m.NodeUnknownSince = m.w.now
			}
		}),
		"proof is skipped": onHost(func(rt *rapid.T, h *host) {
			h.m.SkipProof = rapid.IntRange(0, 3).Draw(rt, "skip proof") == 0
		}),
		"it is retried": onHost(func(rt *rapid.T, h *host) { h.m.Retry = rapid.IntRange(0, 3).Draw(rt, "retry") == 0 }),
		"a state machine gave up": onHost(func(rt *rapid.T, h *host) {
			if h.refuseProof(rt); h.refused() {
				h.report(nodeplan.KeyPlanState, []byte("failed"))
			}
		}),
		"drainer":     onHost(func(_ *rapid.T, h *host) { h.drainNode() }),
		"pool":        onHost(func(rt *rapid.T, h *host) { h.m.PoolPaused = rapid.Bool().Draw(rt, "paused") }),
		"left out":    onHost(func(rt *rapid.T, h *host) { h.m.Skip = rapid.IntRange(0, 3).Draw(rt, "skip") == 0 }),
		"old kubelet": onHost(func(_ *rapid.T, h *host) { h.m.KubeletVersion = "v1.35.0" }),
		"time goes by": func(rt *rapid.T) {
			m.w.now = m.w.now.Add(time.Duration(rapid.IntRange(1, 11).Draw(rt, "minutes")) * time.Minute)
		},
		"pass":                   m.pass,
		"half a pass":            m.crashedPass,
		"writes are lost":        m.lossyPass,
		"caches lag":             func(*rapid.T) { m.lag() },
		"an old view":            m.stalePass,
		"the same view":          m.stalePass,
		"the manager is started": func(*rapid.T) { m.caches = nil },
		"everything runs":        m.everythingRuns,
		"all refuse":             m.allRefuse,
		"some run":               m.someRun,
		"some run again":         m.someRun, // often, or worlds make little progress with an edit
		"another edit":           func(rt *rapid.T) { m.specEdit(rt); m.pass(rt); m.someRun(rt) },
	}
}

// everythingRuns lets random worlds make progress.
func (m *model) everythingRuns(rt *rapid.T) {
	for _, name := range m.w.names() {
		h := m.w.machines[name]
		h.comeBack()
		m.catchUp(h)
	}
	m.w.connected = true
	m.pass(rt)
}

// comeBack: its host and its node exist, no drain is skipped, it is not left out, and it is drained if requested.
func (h *host) comeBack() {
	h.registered, h.m.InfrastructureReady = true, true
	h.m.NodeLostSince, h.m.NodeUnknown, h.m.NodeUnknownSince = time.Time{}, false, time.Time{}
	h.m.PoolPaused, h.m.Skip, h.m.SkipProof, h.m.Retry = false, false, false, false
	h.drainNode()
}

// catchUp is a host that carries out its plan, works, and reports.
func (m *model) catchUp(h *host) {
	h.applyPlan()
	h.probes(true)
	h.joinCluster(m.w.cp.Spec.KubernetesVersion)
	if h.m.Marks.InitNode {
		h.captureAddress()
	}
}

// pass decides, checks and applies.
func (m *model) pass(rt *rapid.T) {
	m.caches = nil
	d := m.decide(rt)
	m.w.apply(d)
	m.checkWorld(rt)
}

// lag makes the caches show the current state until events arrive.
func (m *model) lag() {
	if m.caches == nil {
		m.caches = newCaches(m.w)
	}
}

// stalePass is a pass of a manager whose caches may lag.
func (m *model) stalePass(rt *rapid.T) {
	m.lag()
	truth := m.w
	truth.stalePass(rt, m.caches, func(seen *world, _ Snapshot, d Decision) {
		m.w = seen
		m.checkDecision(rt, d)
		m.w = truth
	}, func(d Decision, write func()) { truth.beginsOne(rt, d, write) })
	m.checkWorld(rt)
}

// lossyPass is a pass in which some writes are refused.
func (m *model) lossyPass(rt *rapid.T) {
	m.caches = nil
	d := m.decide(rt)
	if d.Ticket != nil {
		m.w.cp.Status = d.Status
		m.w.cp.Status.Ticket = d.Ticket
	}
	m.w.carryOut(d, func(Effect) answer {
		return rapid.SampledFrom([]answer{written, written, refused, unsaid}).Draw(rt, "answer")
	})
	m.checkWorld(rt)
}

// crashedPass applies only the first few writes, as when the manager is killed.
func (m *model) crashedPass(rt *rapid.T) {
	m.caches = nil
	d := m.decide(rt)
	if d.Ticket != nil {
		m.w.cp.Status.Ticket = d.Ticket
	}
	d.Effects = d.Effects[:rapid.IntRange(0, len(d.Effects)).Draw(rt, "effects")]
	for _, e := range d.Effects {
		m.w.applyOne(e)
	}
	m.checkWorld(rt)
}

func (m *model) decide(rt *rapid.T) Decision {
	s := m.w.snapshot(rt)
	d := Decide(s)
	if again := Decide(s); !reflect.DeepEqual(d, again) { // computing the difference costs more than the decision
		rt.Fatalf("deciding twice is different (-first +second):\n%s", cmp.Diff(d, again))
	}
	checkTimer(rt, s, d)
	m.checkDecision(rt, d)
	return d
}

// checkDecision checks a decision before it is carried out.
func (m *model) checkDecision(rt *rapid.T, d Decision) {
	m.checkRollOut(rt, d)
	m.checkLastMembers(rt, d)
	restarts := 0
	for _, e := range d.Effects {
		e, ok := e.(DeliverPlan)
		if !ok {
			continue
		}
		h := m.w.machines[e.Machine]
		m.checkDelivery(rt, d, h, e)
		if before := h.state().Plan; h.data[nodeplan.KeyPlan] != nil &&
			h.m.Labels["rke.cattle.io/etcd-role"] == "true" && len(h.data[nodeplan.KeyAppliedPlan]) > 0 {
			after, _ := nodeplan.Decode(e.Delivery.Plan)
			if !slices.EqualFunc(render.WithoutEtcdProof(before).Instructions,
				render.WithoutEtcdProof(after).Instructions, sameInstruction) {
				restarts++
			}
		}
	}
	if restarts > 1 {
		rt.Fatalf("%d etcd members restarted at once", restarts)
	}
	if d.Wait != nil {
		if len(d.Wait.Wakes) == 0 {
			rt.Fatalf("nothing ends the wait %q", d.Wait.Message)
		}
		if names := strings.Count(strings.ReplaceAll(d.Wait.Message, msgNodeLostFor, ""),
			","); strings.HasPrefix(d.Wait.Message, "configuring") && !strings.Contains(d.Wait.Message, ":") &&
			names > 2 {
			rt.Fatalf("more than three machines are named: %q", d.Wait.Message)
		}
	}
}

// checkDelivery checks every delivered plan.
func (m *model) checkDelivery(rt *rapid.T, d Decision, h *host, e DeliverPlan) {
	// The user requests it, or the agent was controlled by states and never tries again by itself.
	wished := h.m.Retry && e.Again || string(h.data[nodeplan.KeyPlanState]) == "failed"
	switch {
	case h.m.Deleting:
		rt.Fatalf("a deleting machine gets a plan: %s", e.Machine)
	case m.w.cluster.Paused:
		rt.Fatalf("a machine of a paused cluster gets a plan: %s", e.Machine)
	case string(h.data[nodeplan.KeyPlan]) == string(e.Delivery.Plan) && !wished:
		rt.Fatalf("a plan that is there is written again: %s", e.Machine)
	case nodeplan.Checksum(e.Delivery.Plan) != e.Delivery.Checksum:
		rt.Fatalf("the checksum of the plan of %s is wrong", e.Machine)
	case h.m.Labels["rke.cattle.io/etcd-role"] == "true" && e.First &&
		(d.Ticket == nil || !strings.Contains(fmt.Sprint(d.Ticket.Machines), e.Delivery.Checksum)):
		rt.Fatalf("etcd machine %s gets its first plan without a ticket", e.Machine)
	}
	m.checkJoiners(rt, d, h, e)
	server, _ := config(rt, e.Delivery.Plan)["server"].(string)
	if server != e.Marks.JoinedTo {
		rt.Fatalf("the plan of %s joins %q, its mark says %q", e.Machine, server, e.Marks.JoinedTo)
	}
	if server == "" {
		// Another machine may replace the init node, but only an existing member starts no second cluster.
		member := len(h.data[nodeplan.KeyAppliedPlan]) > 0 && h.m.Marks.JoinURL != ""
		for other := range m.inits {
			if o := m.w.machines[other]; o != nil && other != e.Machine && !member {
				rt.Fatalf("%s starts a cluster while %s lives, which started one", e.Machine, other)
			}
		}
		return
	}
	published := false
	for _, name := range m.w.names() {
		o := m.w.machines[name]
		url := o.m.Marks.JoinURL
		for _, mark := range d.Effects {
			if mark, ok := mark.(MarkMachine); ok && mark.Machine == name {
				url = mark.Marks.JoinURL
			}
		}
		if url == server && (!o.m.Deleting || h.rank() < 2 && o.keepsData()) {
			published = true
			if name == e.Machine {
				rt.Fatalf("%s joins itself", name)
			}
		}
	}
	if !published {
		rt.Fatalf("%s joins %s, which no server publishes that stays", e.Machine, server)
	}
}

// checkJoiners checks the machines that got their first plan with etcd less than two minutes ago: at most one has not
// applied it, unless it failed.
func (m *model) checkJoiners(rt *rapid.T, d Decision, h *host, e DeliverPlan) {
	if !e.First || !h.is("etcd") || h.member() {
		return
	}
	for _, o := range m.live() {
		state, err := o.parse()
		joins := state.PlanExists && neverApplied(&state) && !state.Failed &&
			m.w.now.Sub(o.delivered) < 2*time.Minute || slices.ContainsFunc(d.Effects, func(other Effect) bool {
			p, ok := other.(DeliverPlan)
			return ok && p.First && p.Machine == o.m.Name
		})
		if o != h && o.is("etcd") && err == nil && !o.m.Skip && joins {
			rt.Fatalf("%s joins etcd while %s does", h.m.Name, o.m.Name)
		}
	}
}

// keepsData is true when its machine is being deleted, and its member works and has not left.
func (h *host) keepsData() bool {
	return h.is("etcd") && h.m.Deleting && h.m.Held && !h.m.ForceRemove && h.serves()
}

// checkLastMembers checks that the data are not given up while most members work.
func (m *model) checkLastMembers(rt *rapid.T, d Decision) {
	works, all := 0, 0
	for _, h := range m.w.machines {
		works += btoi(h.keepsData())
		all += btoi(h.is("etcd") && h.registered && h.m.Deleting && h.m.Held && !h.m.ForceRemove)
	}
	for _, e := range d.Effects {
		if e, forced := e.(ForceRemoveMachine); forced && 2*works > all {
			rt.Fatalf("%s is let go with its member, although %d of %d work", e.Machine, works, all)
		}
	}
}

// checkWorld checks the written state, also after partial writes.
func (m *model) checkWorld(rt *rapid.T) {
	marked, labelled, anyPlan := 0, 0, false
	for _, name := range m.w.names() {
		h := m.w.machines[name]
		if h.m.Marks.InitNode {
			marked++
		}
		if h.initLabel {
			labelled++
		}
		if raw := h.data[nodeplan.KeyPlan]; len(raw) > 0 {
			anyPlan = true
			if config(rt, raw)["server"] == nil {
				m.inits[name] = true
			}
		}
	}
	if marked > 1 || labelled > 1 {
		rt.Fatalf("%d init nodes, %d plan secrets say so", marked, labelled)
	}
	if m.delivered && m.tokens.Values != m.w.tokens.Values {
		rt.Fatal("the tokens changed after a plan was delivered")
	}
	if anyPlan {
		m.delivered, m.tokens = true, m.w.tokens
	}
}

// settle checks that the planner comes to rest, without news from outside, and then writes nothing.
func (m *model) settle(rt *rapid.T) {
	for range 10 {
		before := m.w.writes
		m.pass(rt)
		if m.w.writes == before {
			m.pass(rt)
			if m.w.writes != before {
				rt.Fatal("the planner writes again although nothing happened")
			}
			return
		}
	}
	rt.Fatal("the planner never comes to rest")
}

func (m *model) ready() bool {
	status, _ := m.w.condition("Ready")
	return status == "True"
}

func TestModel_NoWorldBreaksAnInvariant(t *testing.T) {
	explore(t, 20, func(rt *rapid.T, walk *walk) {
		m := newModel(rt)
		walk.repeat(rt, m.actions(rt))
		m.settle(rt)
	})
}

// No rollout in a working cluster breaks an invariant.
func TestModel_NoRollOutBreaksAnInvariant(t *testing.T) {
	explore(t, 40, func(rt *rapid.T, walk *walk) {
		m := grown(rt)
		walk.repeat(rt, m.actions(rt))
		m.settle(rt)
	})
}

// Whatever happened before: when machines of all roles exist, everything works, and nothing was lost, the cluster
// becomes ready.
func TestModel_EveryWorldGetsReadyInTheEnd(t *testing.T) {
	explore(t, 10, func(rt *rapid.T, walk *walk) {
		m := newModel(rt)
		if rapid.Bool().Draw(rt, "grown") {
			m = grown(rt)
		}
		actions := m.actions(rt)
		for _, loss := range []string{"machine is deleted", "machine fails", "garbage in the secret"} {
			delete(actions, loss)
		}
		walk.repeat(rt, actions)
		m.w.addBare("a-server", allRoles).serial = 200
		m.w.cluster.Paused = false
		for range 100 {
			if m.everythingRuns(rt); m.ready() {
				return
			}
		}
		_, message := m.w.condition("Ready")
		rt.Fatalf("never ready: %s", message)
	})
}
