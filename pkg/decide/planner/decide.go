package planner

import (
	"cmp"
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// step is one step of the walk.
type step struct {
	name string
	run  func(*pass) verdict
}

// steps in the order of the walk. Users see the names.
var steps = []step{
	{"fresh", stepFresh},
	{"release", stepRelease},
	{"gate", stepGate},
	{"sanity", stepSanity},
	{"tokens", stepTokens},
	{"agent", stepAgent},
	stepOf(kindCreate), stepOf(kindRestore), stepOf(kindCertificates), stepOf(kindKeys),
	{"restored-config", stepRestoredConfig},
	{"paused", stepPaused},
	{"restore-required", stepRestoreRequired},
	{"elect", stepElect},
	{"join", stepJoin},
	{"init", stepInit},
	{"etcd", stepEtcd},
	{"control-plane", stepControlPlane},
	{"worker", stepWorker},
	{"agents", stepAgents},
	{"steady", stepSteady},
}

// verdict is a step's answer: it passes and says why, or it ends the walk. The zero verdict of a part of a step means
// that the part is done.
type verdict struct {
	why  string
	stop bool
	wait *Wait
}

// goOn passes to the next step.
func goOn(why string) verdict { return verdict{why: why} }

// stopFor ends the walk with a wait, or with nil when the cluster is in order.
func stopFor(wait *Wait) verdict { return verdict{stop: true, wait: wait} }

// Decide returns what must happen now. It does not change the snapshot. Equal snapshots give equal decisions.
func Decide(s Snapshot) Decision {
	p := newPass(&s)
	for _, step := range steps {
		v := step.run(p)
		if v.stop {
			return p.decision(step.name, v.wait)
		}
		p.trace = append(p.trace, Trace{Step: step.name, Why: v.why})
	}
	return p.decision("steady", nil)
}

// pass is one walk: what is known, what follows from it, and the decisions so far. Each part decides one thing.
type pass struct {
	*cluster
	*summary
	etcd     *etcd
	plans    *renderer
	causes   *causeFinder
	drains   *drainer
	progress *progress
	trace    []Trace

	ticket  *rkev1.DisruptionTicket
	first   []Effect // before marks
	drain   []Effect
	deliver []Effect
	report  []Effect
	last    []Effect // after everything
	// held is why the cluster is not in order although the walk goes on: plans are too large or cannot be rendered.
	held *Wait
	// leftOut names machines that the rollout goes on without.
	leftOut *Wait
	// blocked is why the init node waits with its change while other machines may change.
	blocked *Wait
	// agents is what the last step found out about the upgrade of the agents, nil until it runs.
	agents *agentReport
	// unwell describes machines that other controllers report as failing or not ready. They do not hold up later tiers.
	unwell string
}

func newPass(s *Snapshot) *pass {
	c := newCluster(s)
	plans := newRenderer(c)
	return &pass{
		cluster:  c,
		summary:  &summary{cluster: c, status: c.statusCopy()},
		etcd:     &etcd{c},
		plans:    plans,
		causes:   &causeFinder{cluster: c, plans: plans},
		drains:   &drainer{c},
		progress: &progress{cluster: c},
	}
}

// initialized returns status.initialization.controlPlaneInitialized as it is after this pass.
func (p *pass) initialized() bool {
	v := p.status.Initialization.ControlPlaneInitialized
	return v != nil && *v
}

// setInitialized sets the field that Cluster API reads, and its copy for the printed column.
func (p *pass) setInitialized(v bool) {
	p.status.Initialization.ControlPlaneInitialized = &v
	p.status.Initialized = v
	p.plans.input.ControlPlane.Initialized = v
}

// decision returns the result of the walk.
func (p *pass) decision(step string, wait *Wait) Decision {
	d := Decision{Step: step, Ticket: p.ticket, Wait: wait, Trace: p.trace}
	if wait != nil && wait.Quiet {
		d.Status = p.s.ControlPlane.Status
		return d
	}
	if p.held != nil {
		wait = p.held // only the user can end it, and the Machines show the other waits
		d.Wait = wait
	}
	if wait != nil && p.timer > 0 && (wait.After <= 0 || p.timer < wait.After) {
		wait.After = p.timer
	}
	p.setSummary(wait)
	d.Status = p.status
	d.Effects = slices.Concat(p.first, p.markEffects(), p.drain, p.deliver, p.publishEffects(), p.report, p.last)
	d.Warnings = sortedWarnings(p.warnings)
	return d
}

// markEffects are the marks that differ from those on the Machines. Marks and labels of former init nodes are removed
// first, so there are never two init nodes.
func (p *pass) markEffects() []Effect {
	var withdraw, set []Effect
	for _, m := range p.machines {
		effect := MarkMachine{Machine: m.Name, Marks: m.marks}
		switch {
		case m.Marks.InitNode && !m.marks.InitNode:
			withdraw = append(withdraw, effect)
		case m.marks != m.Marks:
			set = append(set, effect)
		}
		if m.Plan.InitNode && !m.marks.InitNode {
			withdraw = append(withdraw, WithdrawInitLabel{Machine: m.Name, Secret: m.Plan.Name})
		}
	}
	return slices.Concat(withdraw, set)
}

// publishEffects repeat join URLs on plan Secrets that get no plan in this pass. They wait until the agent has reported
// and the report was noted: some agents start over when the Secret changes during an apply.
func (p *pass) publishEffects() []Effect {
	var out []Effect
	for _, m := range p.machines {
		if m.marks.JoinURL != m.Plan.JoinURL && m.Plan.State.InSync && m.Plan.ProbesPassed && !m.getsPlan {
			out = append(out, PublishJoinURL{Machine: m.Name, Secret: m.Plan.Name, JoinURL: m.marks.JoinURL})
		}
	}
	return out
}

func sortedWarnings(set map[render.Warning]bool) []render.Warning {
	out := make([]render.Warning, 0, len(set))
	for w := range set {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b render.Warning) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	if len(out) == 0 {
		return nil
	}
	return out
}
