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

// Attempts that agents have at the plans of operations. Commands that succeeded are not run again (see render/idempotent.go),
// so several are safe. The count is both where the agent stops and where the plan counts as failed.
const (
	commandAttempts = 3
	restartAttempts = 5
)

// task is the part of one machine in an operation.
type task struct {
	m        *machine
	plan     plan.NodePlan
	attempts int
	// disrupts puts the machine on a ticket.
	disrupts bool
	// proves has the node prove that etcd can do without its member, as the plans of roll-outs do: the server's view may be old.
	proves bool
	// joinURL replaces the mark joined-to when rejoins is set.
	joinURL string
	rejoins bool
}

// report is how a task stands: done when both are empty.
type report struct {
	missing string // what is waited for
	failed  string // why it is over
}

func (r report) done() bool { return r.missing == "" && r.failed == "" }

// assign brings a machine to the plan of an operation, and says how far it is.
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

// exhausted reports that an agent has failed as often as it may which counts from one with each plan, as Drover's does. The limit that it was given is for those that
// count on, and is further away.
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

// mark notes on a machine what its plan makes of it. It returns what the plan was rendered from where that is another one than before.
func (o *operation) mark(t task, cause disruption.Cause, checksum string) (evidence string) {
	if t.rejoins || t.m.marks.RenderVersion == "" { // others go on with the plan that they have
		t.m.marks.RenderVersion = o.versionFor(t.m)
	}
	if t.rejoins {
		t.m.joins, t.m.marks.JoinedTo = t.joinURL, t.joinURL
		return o.evidenceOf(t.m).because(cause).about(checksum)
	}
	if !o.s.ControlPlane.Spec.UnmanagedConfig {
		t.m.marks.JoinedTo = render.JoinedServer(t.plan) // of the plan in force, which may not be the one delivered last
	}
	return ""
}

// have is the plan that is in force on a machine: the one that was applied last, or one of an operation on top of that.
func (m *machine) have() plan.NodePlan {
	state := &m.Plan.State
	if state.InSync || state.AppliedPlan == nil || render.OperationOf(state.Plan) != "" {
		return state.Plan
	}
	return *state.AppliedPlan
}

// takesPart reports that the machine is a part of the cluster that operations have to think of: it lives and has applied a
// plan. Others come with everything new.
func takesPart(m *machine) bool {
	return !m.Deleting && m.Plan.State.PlanExists && (!neverApplied(&m.Plan.State) || m.Plan.State.InSync)
}

// node is what the instructions for a machine depend on.
func (p *pass) node(m *machine) render.Node {
	spec := &p.s.ControlPlane.Spec
	return render.Node{
		Runtime: p.runtime, Dirs: distro.DirsFor(p.runtime, spec.DataDirectories), Windows: m.windows, Server: m.roles.Server(),
		Loopback: distro.LoopbackHost(spec.Networking),
	}
}

// work is the plan that the machine has, with work of an operation on top.
func (p *pass) work(m *machine, work render.Work) plan.NodePlan {
	return p.node(m).Operation(m.have(), work)
}

// etcdHolds is why the member on a machine must not be stopped now: another one is not well. Empty when it may, and for a
// machine that has its orders already and does not need them anew.
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

// holds reports that another member is not well, and that it matters. One whose machine is being deleted stays as it is while the cluster is paused: it is no
// reason to leave alone what does not work either.
func (p *pass) holds(m, o *machine) bool {
	unwell := o.sent || !o.Plan.State.Works() || !o.NodeLostSince.IsZero() || p.hidden(o)
	return unwell && (!o.Deleting || o.Held && m.etcdServes())
}

// ordered reports that a machine has its orders, and does not need them anew.
func (p *pass) ordered(m *machine, want plan.NodePlan) bool {
	return nodeplan.Equal(render.WithoutEtcdProof(m.Plan.State.Plan), want) && !p.asksTooMuch(m)
}

// rotatesLater is why a rotation of a kind cannot start now, empty when it can. It pauses the CAPI cluster, and with it everything that would
// tell that a node can be seen again, or remove a member from etcd.
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

// later tells those who asked for an operation why it has not begun.
func (p *pass) later(k kind, why string) string {
	p.set(k.condition, corev1.ConditionUnknown, rkev1.ReasonWaiting, why)
	return why
}

// oneByOne brings machines to their plans, each when the one before is in order. It returns the verdict that holds it up.
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

// judge turns the report of the machine that a step names into a verdict, nil when it is done.
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

// says are the beginnings of messages, before the names of machines.
type says struct{ waiting, failed string }

// allAtOnce brings machines to their plans without waiting for each other. For those in optional it does not wait at all.
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

// leftHalfWay reports that the machine has a plan that stops the distribution, and has not come to its end.
func (m *machine) leftHalfWay() bool {
	switch render.OperationOf(m.Plan.State.Plan) {
	case render.OperationCertificates, render.OperationKeys, render.OperationStart:
		return !m.Plan.State.InSync
	}
	return false
}

// startAgain makes good what an operation has left behind that ended half-way: the distribution may be stopped on the machine,
// and no ordinary plan would start it. It reports whether that is still to be done.
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

// reconcileSteps are the steps by which machines get the plans they should have.
var reconcileSteps = []step{
	{"elect", stepElect}, {"join", stepJoin}, {"init", stepInit}, {"etcd", stepEtcd}, {"control-plane", stepControlPlane}, {"worker", stepWorker},
}

// reconcile walks the steps up to the one of that name. It returns the step that ended the walk and its wait.
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
