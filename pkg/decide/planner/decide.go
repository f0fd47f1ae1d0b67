package planner

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/redact"
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
	{"paused", stepPaused},
	{"restore-required", stepRestoreRequired},
	{"elect", stepElect},
	{"join", stepJoin},
	{"init", stepInit},
	{"etcd", stepEtcd},
	{"control-plane", stepControlPlane},
	{"worker", stepWorker},
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

// pass is one walk: the snapshot, what follows from it, and the decisions so far.
type pass struct {
	s       *Snapshot
	runtime distro.Runtime
	input   render.Input // shared by all machines
	// secrets are the values that no message may contain. They are nil until first use.
	secrets *redact.Secrets
	// machines are the registered machines, sorted by name. unregistered machines have no plan Secret yet. Machines
	// that are gone are in neither list.
	machines     []*machine
	unregistered []*machine
	uids         map[types.UID]bool // of all these machines
	// joinable are the servers that workers may join, nil until first use.
	joinable []*machine
	init     *machine
	trace    []Trace

	status   rkev1.RKEControlPlaneStatus
	ticket   *rkev1.DisruptionTicket
	first    []Effect // before marks
	drain    []Effect
	deliver  []Effect
	report   []Effect
	last     []Effect // after everything
	warnings map[render.Warning]bool
	// held is why the cluster is not in order although the walk goes on: plans are too large or cannot be rendered.
	held *Wait
	// leftOut names machines that the rollout goes on without.
	leftOut *Wait
	// blocked is why the init node waits with its change while other machines may change.
	blocked *Wait
	// timer is the time until the next deadline passes, 0 for none.
	timer time.Duration
	// rendered is true when the plans of all machines were rendered, whatever Drover waits for.
	rendered bool
	// unwell describes machines that other controllers report as failing or not ready. They do not hold up later tiers.
	unwell string
	// evidence is the part that the plans of all machines share, nil until first use.
	evidence *evidence
	// restoring is true while a restore starts the machines again. Nothing can disrupt them then.
	restoring bool
}

// machine is a Machine with what follows from it, and its marks as they will be after this pass.
type machine struct {
	*Machine
	roles   render.Roles
	windows bool
	marks   Marks

	// The result of its tier: the desired plan, the server that it joins, and the change from its current plan.
	desired plan.NodePlan
	joins   string
	change  nodeplan.Change
	found   finding
	// isUnavailable is true while the machine counts as unavailable: its plan is not applied, its node is drained, or
	// its probes fail although no change is pending. isUnhealthy is true when its probes fail, a change is pending, and
	// it is not isUnavailable.
	isUnavailable, isUnhealthy bool
	// keepsPlan is true when the machine keeps its current plan: this program cannot render its version, or no change
	// was requested since the machine was adopted.
	keepsPlan bool
	// isChangeRequested is true when a change was requested since the machine was adopted with its plan.
	isChangeRequested bool
	// read is its evidence, nil until first use.
	read *readEvidence
	// isStranded is true for a server whose node is lost for longer than the deadline while the server holds up others.
	isStranded bool
	// isDeferred is true when only release data changed, so the restart waits for the next user change.
	isDeferred bool
	// getsPlan is true when this pass delivers a plan to the machine. getsDrain is true when this pass requests its
	// drain, or ends its drain before its change.
	getsPlan, getsDrain bool
}

func newPass(s *Snapshot) *pass {
	p := &pass{
		s:        s,
		runtime:  distro.RuntimeOf(s.ControlPlane.Spec.KubernetesVersion),
		status:   s.ControlPlane.Status,
		warnings: map[render.Warning]bool{},
		uids:     map[types.UID]bool{},
	}
	p.status.Conditions = slices.Clone(p.status.Conditions)
	for i := range s.Machines {
		m := &s.Machines[i]
		p.uids[m.UID] = true
		if m.gone() {
			continue
		}
		wrapped := &machine{Machine: m, roles: rolesOf(m.Labels), windows: m.Labels[rkev1.CattleOSLabel] == "windows", marks: m.Marks}
		if m.Plan == nil {
			p.unregistered = append(p.unregistered, wrapped)
			continue
		}
		p.machines = append(p.machines, wrapped)
	}
	byName := func(a, b *machine) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(p.machines, byName)
	slices.SortFunc(p.unregistered, byName)
	p.input = render.Input{
		ControlPlane: render.ControlPlane{
			Namespace:        s.ControlPlane.Namespace,
			Name:             s.ControlPlane.Name,
			Annotations:      s.ControlPlane.Annotations,
			Spec:             s.ControlPlane.Spec,
			ConfigGeneration: s.ControlPlane.Status.ConfigGeneration,
			Initialized:      p.initialized(),
		},
		Tokens:       s.Tokens.Values,
		Settings:     s.Settings,
		Release:      s.Release,
		Objects:      objectsOf(s.Objects),
		ClusterAgent: s.ClusterAgent,
	}
	if s.Memo != nil {
		s.Memo.Begin(s.Versions, p.input, func(uid types.UID) bool {
			return p.uids[uid]
		})
	}
	return p
}

// gone reports that only the object of a machine is left. Cluster API deletes the host, then the plan Secret goes, and
// then Cluster API tries to delete the Node. That fails while the cluster does not answer. Drover does not wait for it.
func (m *Machine) gone() bool {
	return m.Deleting && !m.Held && !m.InfrastructureReady && m.Plan == nil
}

func rolesOf(labels map[string]string) render.Roles {
	return render.Roles{
		ETCD:         labels[rkev1.EtcdRoleLabel] == rkev1.RoleLabelValue,
		ControlPlane: labels[rkev1.ControlPlaneRoleLabel] == rkev1.RoleLabelValue,
		Worker:       labels[rkev1.WorkerRoleLabel] == rkev1.RoleLabelValue,
	}
}

func objectsOf(objects []Object) render.Objects {
	out := render.Objects{
		Secrets:    map[types.NamespacedName]render.Secret{},
		ConfigMaps: map[types.NamespacedName]render.ConfigMap{},
	}
	for _, o := range objects {
		key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
		switch o.Kind {
		case "Secret":
			out.Secrets[key] = render.Secret{Type: o.Type, Data: o.Data, Annotations: o.Annotations, Denied: o.Denied}
		case "ConfigMap":
			out.ConfigMaps[key] = render.ConfigMap{Data: o.Data, Annotations: o.Annotations}
		}
	}
	return out
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
	p.input.ControlPlane.Initialized = v
}

// collect returns the registered machines that pass all filters, sorted by name.
func (p *pass) collect(filters ...func(*machine) bool) []*machine {
	var out []*machine
	for _, m := range p.machines {
		if !slices.ContainsFunc(filters, func(f func(*machine) bool) bool { return !f(m) }) {
			out = append(out, m)
		}
	}
	return out
}

func isEtcd(m *machine) bool         { return m.roles.ETCD }
func isControlPlane(m *machine) bool { return m.roles.ControlPlane }
func isWorker(m *machine) bool       { return m.roles.Worker }
func isLive(m *machine) bool         { return !m.Deleting }
func isDeleting(m *machine) bool     { return m.Deleting }

// gotPlan reports that the machine got a plan at some time, whatever its Secret holds now.
func (m *machine) gotPlan() bool {
	return m.Marks.RenderVersion != "" || m.Plan != nil && m.Plan.State.PlanExists
}

// canBeInit reports that the machine can start a cluster: it has etcd, it is alive, and its host exists.
func (m *machine) canBeInit() bool {
	return m.roles.ETCD && !m.Deleting && m.Phase != phaseFailed && m.InfrastructureReady
}

// phaseFailed is the phase of a Machine that Cluster API has given up.
const phaseFailed = "Failed"

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
	if wait != nil && p.timer > 0 {
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

// wakeAfter requests another pass after at most d.
func (p *pass) wakeAfter(d time.Duration) {
	if p.timer == 0 || d < p.timer {
		p.timer = d
	}
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
