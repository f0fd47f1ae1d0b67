package planner

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Attempts that agents have at the plans of operations. Commands that succeeded do not run again (see
// render/idempotent.go), so several attempts are safe. After this count the agent stops and the plan counts as failed.
const (
	commandAttempts = 3
	restartAttempts = 5
)

// task is the part of one machine in an operation.
type task struct {
	m        *machine
	plan     plan.NodePlan
	attempts int
	// disrupts is true when the machine needs a ticket.
	disrupts bool
	// proves is true when the node must prove that etcd can do without its member, as in plans of rollouts. The
	// server's view may be old.
	proves bool
	// joinURL replaces the mark joined-to when rejoins is true.
	joinURL string
	rejoins bool
}

// report is the progress of a task. It is done when both fields are empty.
type report struct {
	missing string // what Drover waits for
	failed  string // why it failed
}

func (r report) done() bool { return r.missing == "" && r.failed == "" }

// assign brings a machine to the plan of an operation, and reports its progress.
func (o *operation) assign(t task) report {
	r := o.assigned(t)
	text := r.missing
	if r.failed != "" {
		text = r.failed
	}
	if text != "" {
		o.noteMachine(t.m, o.title+": "+text)
	}
	return r
}

func (o *operation) assigned(t task) report {
	state := &t.m.Plan.State
	failed := state.Failed || t.exhausted()
	switch {
	case t.m.Plan.Malformed != "":
		return report{missing: "the plan secret " + t.m.Plan.Name + " is unreadable: " + t.m.Plan.Malformed}
	case !state.PlanExists || !o.ordered(t.m, t.plan), t.m.refused() && o.overridden(t.m):
		return o.hand(t)
	case failed:
		return report{failed: o.failureOf(t.m)}
	case !state.InSync:
		return report{missing: msgApplied}
	}
	if unhealthy := t.m.unhealthyProbes(); len(unhealthy) > 0 {
		return report{missing: msgProbes + strings.Join(unhealthy, ", ")}
	}
	return report{}
}

// exhausted reports that an agent that counts failures per plan, as Drover's does, has used up its attempts. The
// delivered limit is higher, because it is meant for agents that keep counting from plan to plan.
func (t task) exhausted() bool {
	state := &t.m.Plan.State
	return state.FailedChecksum == state.Checksum && state.FailureCount >= t.attempts && state.FailureCount <= state.MaxFailures-t.attempts
}

// hand delivers the plan.
func (o *operation) hand(t task) report {
	if err := nodeplan.Check(t.plan); err != nil {
		return report{failed: "cannot deliver the plan: " + err.Error()}
	}
	want := t.plan
	if t.proves && t.m.roles.ETCD && !o.overridden(t.m) {
		want = o.withProof(t.m, want)
	}
	data, err := nodeplan.Encode(want)
	if err != nil {
		return report{failed: "cannot encode the plan"}
	}
	if message := t.m.tooLarge(t.plan, data, &o.s.ControlPlane.Spec); message != "" {
		return report{failed: message}
	}
	limit := t.m.countAfter(t.attempts)
	delivery := Delivery{Plan: data, Checksum: nodeplan.Checksum(data), MaxFailures: limit, FailureThreshold: limit}
	effect := DeliverPlan{Machine: t.m.Name, Secret: t.m.Plan.Name, Delivery: delivery, First: !t.m.Plan.State.PlanExists}
	if t.disrupts {
		effect.Cause = o.cause
	}
	effect.Evidence = t.m.keptEvidence(delivery.Checksum, effect.Cause)
	if evidence := o.mark(t, effect.Cause, delivery.Checksum); evidence != "" {
		effect.Evidence = evidence
	}
	t.m.sent = true
	effect.Marks = t.m.marks
	if t.disrupts {
		o.addTicket(o.name, t.m, delivery.Checksum, o.title)
	}
	o.deliver = append(o.deliver, effect)
	return report{missing: msgApplied}
}

// mark updates the marks of a machine for its plan. It returns the evidence of the plan where that changes.
func (o *operation) mark(t task, cause disruption.Cause, checksum string) (evidence string) {
	if t.rejoins || t.m.marks.RenderVersion == "" { // others keep their current plan
		t.m.marks.RenderVersion = o.versionFor(t.m)
	}
	if t.rejoins {
		t.m.joins, t.m.marks.JoinedTo = t.joinURL, t.joinURL
		return o.evidenceOf(t.m).because(cause).about(checksum)
	}
	if !o.s.ControlPlane.Spec.UnmanagedConfig {
		t.m.marks.JoinedTo = render.JoinedServer(t.plan) // the plan in force may not be the last delivered one
	}
	return ""
}

// have is the plan in force on a machine: the last applied plan, or the plan of an operation on top of it.
func (m *machine) have() plan.NodePlan {
	state := &m.Plan.State
	if state.InSync || state.AppliedPlan == nil || render.OperationOf(state.Plan) != "" {
		return state.Plan
	}
	return *state.AppliedPlan
}

// takesPart reports that operations include the machine: it is alive and has applied a plan. Other machines get
// everything new when they join.
func takesPart(m *machine) bool {
	return !m.Deleting && m.Plan.State.PlanExists && (!neverApplied(&m.Plan.State) || m.Plan.State.InSync)
}

// node holds what the instructions for a machine depend on.
func (p *pass) node(m *machine) render.Node {
	spec := &p.s.ControlPlane.Spec
	return render.Node{
		Runtime: p.runtime, Dirs: distro.DirsFor(p.runtime, spec.DataDirectories), Windows: m.windows, Server: m.roles.Server(),
		Loopback: distro.LoopbackHost(spec.Networking),
	}
}

// work is the machine's current plan with the work of an operation on top.
func (p *pass) work(m *machine, work render.Work) plan.NodePlan {
	return p.node(m).Operation(m.have(), work)
}

// etcdHolds is why the etcd member of a machine must not be stopped now: another member is not healthy. It is empty
// when the member may stop, and for a machine that already has the plan.
func (p *pass) etcdHolds(m *machine, want plan.NodePlan) string {
	if !m.roles.ETCD || p.ordered(m, want) {
		return ""
	}
	var others []note
	for _, o := range p.machines {
		if o != m && o.roles.ETCD && o.Plan.State.PlanExists && p.holds(m, o) {
			others = append(others, note{name: o.Name})
		}
	}
	if len(others) == 0 {
		return ""
	}
	return about("waiting for etcd to be in order on", others)
}

// holds reports that another member is unhealthy and blocks. A member whose machine is being deleted stays as it is
// while the cluster is paused. It does not block the repair of a member that does not work either.
func (p *pass) holds(m, o *machine) bool {
	unwell := o.sent || !o.Plan.State.Works() || !o.NodeLostSince.IsZero() || p.hidden(o)
	return unwell && (!o.Deleting || o.Held && m.etcdServes())
}

// ordered reports that a machine has the wanted plan, and that its proof does not ask for too many members.
func (p *pass) ordered(m *machine, want plan.NodePlan) bool {
	return nodeplan.Equal(render.WithoutEtcdProof(m.Plan.State.Plan), want) && !p.asksTooMuch(m)
}

// rotatesLater is why a rotation of a kind cannot start now, empty when it can. A rotation pauses the CAPI cluster.
// While it is paused, Cluster API cannot see a node again, and cannot remove an etcd member.
func (p *pass) rotatesLater(k kind) string {
	if slices.ContainsFunc(p.machines, func(m *machine) bool { return m.roles.ETCD && !m.Deleting && p.hidden(m) }) {
		return p.later(k, "it waits for the connection to the cluster")
	}
	var lost, leaving []note
	for _, m := range p.collect(isEtcd, func(m *machine) bool { return m.Plan.State.PlanExists }) {
		switch {
		case m.Deleting && m.Held:
			leaving = append(leaving, note{name: m.Name})
		case !m.NodeLostSince.IsZero() && !m.Deleting:
			lost = append(lost, note{name: m.Name})
		}
	}
	switch {
	case len(lost) > 0:
		return p.later(k, about("it waits for the etcd members of machines whose nodes are unreachable:", lost))
	case len(leaving) > 0:
		return p.later(k, about("it waits for machines that are being deleted to leave etcd:", leaving))
	}
	return p.occupied(k)
}

// later reports in the condition of the operation why it has not begun.
func (p *pass) later(k kind, why string) string {
	p.set(k.condition, corev1.ConditionUnknown, rkev1.ReasonWaiting, why)
	return why
}

// oneByOne brings machines to their plans, each when the previous machine is in order. It returns the verdict of the
// machine that is not done.
func (o *operation) oneByOne(phase string, machines []*machine, tasks func(*machine) (task, string)) *verdict {
	for _, m := range machines {
		t, failed := tasks(m)
		step := phase + ": " + m.Name
		if failed != "" {
			v := o.fail(step + ": " + failed)
			return &v
		}
		if holds := o.etcdHolds(m, t.plan); holds != "" && t.disrupts {
			v := o.await(step, stepDeadline, step+": "+holds, WakePlanSecret, WakeMachine)
			return &v
		}
		if v := o.judge(step, stepDeadline, o.assign(t)); v != nil {
			return v
		}
	}
	return nil
}

// judge turns the report of a step's machine into a verdict, nil when it is done.
func (o *operation) judge(step string, deadline time.Duration, r report) *verdict {
	switch {
	case r.failed != "":
		v := o.fail(step + ": " + r.failed)
		return &v
	case r.missing != "":
		v := o.await(step, deadline, step+": "+r.missing, WakePlanSecret, WakeMachine)
		return &v
	}
	return nil
}

// says holds the beginnings of messages, before the names of machines.
type says struct{ waiting, failed string }

// allAtOnce brings machines to their plans at the same time. It does not wait for optional machines.
func (o *operation) allAtOnce(phase string, says says, tasks []task, optional func(*machine) bool) *verdict {
	var failed, missing []note
	for _, t := range tasks {
		r := o.assign(t)
		switch {
		case r.done() || optional != nil && optional(t.m):
		case r.failed != "":
			failed = append(failed, note{t.m.Name, r.failed})
		default:
			missing = append(missing, note{t.m.Name, r.missing})
		}
	}
	var v verdict
	switch {
	case len(failed) > 0:
		v = o.fail(about(says.failed, failed))
	case len(missing) > 0:
		v = o.await(phase, stepDeadline, about(says.waiting, missing), WakePlanSecret, WakeMachine)
	default:
		return nil
	}
	return &v
}

// leftHalfWay reports that the machine has a plan that stops the distribution, and has not completed it.
func (m *machine) leftHalfWay() bool {
	switch render.OperationOf(m.Plan.State.Plan) {
	case render.OperationCertificates, render.OperationKeys, render.OperationStart:
		return !m.Plan.State.InSync
	}
	return false
}

// startAgain repairs a machine after an operation that ended halfway. The distribution may be stopped there, and an
// ordinary plan would not start it. It reports whether this is still in progress.
func (p *pass) startAgain(m *machine) (bool, finding) {
	state := &m.Plan.State
	if !m.leftHalfWay() {
		return false, finding{}
	}
	attempts := int64(0)
	for _, record := range p.status.Operations {
		attempts += record.Attempt
	}
	want := p.work(m, p.node(m).StartWork(strconv.FormatInt(attempts, 10)))
	if nodeplan.Equal(state.Plan, want) {
		return true, finding{p.progress(m), ReasonConfiguring}
	}
	data, err := nodeplan.Encode(want)
	if err != nil {
		return false, finding{}
	}
	delivery := Delivery{Plan: data, Checksum: nodeplan.Checksum(data), MaxFailures: nodeplan.NoLimit, FailureThreshold: 1}
	m.sent = true
	p.deliver = append(p.deliver, DeliverPlan{Machine: m.Name, Secret: m.Plan.Name, Delivery: delivery, Marks: m.marks, Evidence: m.keptEvidence(delivery.Checksum, "")})
	return true, finding{msgApplied, ReasonConfiguring}
}

// reconcileSteps are the steps that bring machines to their desired plans.
var reconcileSteps = []step{
	{"elect", stepElect}, {"join", stepJoin}, {"init", stepInit}, {"etcd", stepEtcd}, {"control-plane", stepControlPlane}, {"worker", stepWorker},
}

// reconcile walks the steps up to the named one. It returns the step that ended the walk and its wait.
func (p *pass) reconcile(last string) (stopped string, wait *Wait) {
	for _, s := range reconcileSteps[:slices.IndexFunc(reconcileSteps, func(s step) bool { return s.name == last })+1] {
		v := s.run(p)
		if v.stop {
			return s.name, v.wait
		}
		p.trace = append(p.trace, Trace{Step: s.name, Why: v.why})
	}
	return "", nil
}
