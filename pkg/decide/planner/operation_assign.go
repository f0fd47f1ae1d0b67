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
	searchAttempts  = 1 // the distribution itself tries more often, and nothing has begun
	commandAttempts = 3
	restartAttempts = 5
)

// task is the part of one machine in an operation.
type task struct {
	m        *machine
	plan     plan.NodePlan
	attempts int
	disrupts bool   // the machine needs a ticket
	optional bool   // the operation goes on without the machine
	proves   bool   // the node proves that etcd can do without its member, because the server's view may be old
	rejoins  bool   // joinURL replaces the mark joined-to
	joinURL  string // empty for the init node
	problem  string // why the machine cannot do its part, empty when it can
}

// taskState is how far a machine is with its task.
type taskState int

const (
	taskDone        taskState = iota // the plan is applied and all probes pass
	taskUnreadable                   // the plan Secret is unreadable
	taskUnrendered                   // the plan cannot be rendered yet
	taskUndelivered                  // the machine does not have the plan
	taskUnapplied                    // the agent has not applied the plan yet
	taskUnhealthy                    // the plan is applied, and some probes fail
	taskFailed                       // the machine cannot do its part
)

// report is the state of a task, with a message about it unless the task is done.
type report struct {
	state   taskState
	message string
}

// assign brings a machine to the plan of an operation, and reports its progress.
func (o *operation) assign(t task) report {
	r := report{state: o.stateOf(t)}
	switch r.state {
	case taskDone, taskUnrendered:
		return r
	case taskUnreadable:
		r.message = "the plan secret " + t.m.Plan.Name + " is unreadable: " + t.m.Plan.Malformed
	case taskUndelivered:
		r = o.deliverTask(t)
	case taskUnapplied:
		r.message = msgApplied
	case taskUnhealthy:
		r.message = msgProbes + strings.Join(t.m.unhealthyProbes(), ", ")
	case taskFailed:
		r.message = o.progress.failureOf(t.m)
	}
	o.noteMachine(t.m, o.Title+": "+r.message)
	return r
}

func (o *operation) stateOf(t task) taskState {
	state := &t.m.Plan.State
	switch {
	case t.m.Plan.Malformed != "":
		return taskUnreadable
	case !state.PlanExists || !o.hasTask(t.m, t.plan), t.m.hasRefused() && o.etcd.isProofSkipped(t.m):
		return taskUndelivered
	case state.Failed, t.exhausted():
		return taskFailed
	case !state.InSync:
		return taskUnapplied
	case len(t.m.unhealthyProbes()) > 0:
		return taskUnhealthy
	}
	return taskDone
}

// exhausted reports that an agent that counts failures per plan, as Drover's does, has used up its attempts. The
// delivered limit is higher, because it is meant for agents that keep counting from plan to plan.
func (t task) exhausted() bool {
	state := &t.m.Plan.State
	return state.FailedChecksum == state.Checksum && state.FailureCount >= t.attempts &&
		state.FailureCount <= state.MaxFailures-t.attempts
}

// deliverTask delivers the plan of a task.
func (o *operation) deliverTask(t task) report {
	if err := nodeplan.Check(t.plan); err != nil {
		return report{taskFailed, "cannot deliver the plan: " + err.Error()}
	}
	want := t.plan
	if t.proves && t.m.roles.ETCD && !o.etcd.isProofSkipped(t.m) {
		want = o.etcd.withProof(t.m, want)
	}
	data, err := nodeplan.Encode(want)
	if err != nil {
		return report{taskFailed, "cannot encode the plan"}
	}
	if message := t.m.tooLarge(t.plan, data, o.spec()); message != "" {
		return report{taskFailed, message}
	}
	checksum, limit, cause := nodeplan.Checksum(data), t.m.countAfter(t.attempts), disruption.Cause("")
	if t.disrupts {
		cause = o.cause
	}
	evidence := o.mark(t, cause, checksum)
	if t.m.getsPlan = true; t.disrupts {
		o.addTicket(o.Record, t.m, checksum, o.Title)
	}
	o.deliver = append(o.deliver, DeliverPlan{
		Machine: t.m.Name, Secret: t.m.Plan.Name, First: !hasPlan(t.m), Cause: cause,
		Evidence: evidence, Marks: t.m.marks,
		Delivery: Delivery{Plan: data, Checksum: checksum, MaxFailures: limit, FailureThreshold: limit},
	})
	return report{taskUnapplied, msgApplied}
}

// mark updates the marks of a machine for its plan, and returns the evidence of the plan.
func (o *operation) mark(t task, cause disruption.Cause, checksum string) (evidence string) {
	if t.rejoins || t.m.marks.RenderVersion == "" { // others keep their current plan
		t.m.marks.RenderVersion = o.versionFor(t.m)
	}
	if t.rejoins {
		t.m.joins, t.m.marks.JoinedTo = t.joinURL, t.joinURL
		return o.causes.evidenceOf(t.m).because(cause).about(checksum)
	}
	if !o.spec().UnmanagedConfig {
		t.m.marks.JoinedTo = render.JoinedServer(t.plan) // the plan in force may not be the last delivered one
	}
	return t.m.keptEvidence(checksum, cause)
}

// planInForce is the plan in force on a machine: the last applied plan, or the plan of an operation on top of it.
func (m *machine) planInForce() plan.NodePlan {
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

func hasPlan(m *machine) bool { return m.Plan.State.PlanExists }

// node holds what the instructions for a machine depend on.
func (c *cluster) node(m *machine) render.Node {
	spec := &c.s.ControlPlane.Spec
	return render.Node{
		Runtime: c.runtime, Dirs: distro.DirsFor(c.runtime, spec.DataDirectories),
		Server: m.roles.Server(), Loopback: distro.LoopbackHost(spec.Networking),
	}
}

// withWork is the machine's current plan with the work of an operation on top.
func (o *operation) withWork(m *machine, work render.Work) plan.NodePlan {
	return o.node(m).Operation(m.planInForce(), work)
}

// etcdBlocks is why the etcd member of a machine must not be stopped now: another member is not healthy. It is empty
// when the member may stop, and for a machine that already has the plan.
func (o *operation) etcdBlocks(m *machine, want plan.NodePlan) string {
	if !m.roles.ETCD || o.hasTask(m, want) {
		return ""
	}
	others := o.collect(isEtcd, hasPlan, func(other *machine) bool { return other != m && o.blocks(m, other) })
	if len(others) == 0 {
		return ""
	}
	return about("waiting for etcd to be in order on", notesOf(others))
}

// blocks reports that another member is unhealthy and blocks. A member whose machine is being deleted stays as it is
// while the cluster is paused. It does not block the repair of a member that does not work either.
func (o *operation) blocks(m, other *machine) bool {
	unwell := other.getsPlan || !other.Plan.State.Works() || !other.NodeLostSince.IsZero() || o.etcd.isHidden(other)
	return unwell && (!other.Deleting || other.Held && m.etcdServes())
}

// hasTask reports that a machine has the wanted plan, and that its proof does not ask for too many members.
func (o *operation) hasTask(m *machine, want plan.NodePlan) bool {
	return nodeplan.Equal(render.WithoutEtcdProof(m.Plan.State.Plan), want) && !o.etcd.asksTooMuch(m)
}

// rotationHeldUp is why a rotation cannot start now, empty when it can. While a rotation pauses the CAPI cluster,
// Cluster API cannot see a node again, and cannot remove an etcd member. The operation's condition shows the reason.
func (o *operation) rotationHeldUp() string {
	unreachable := o.collect(isEtcd, isLive, hasPlan, func(m *machine) bool { return !m.NodeLostSince.IsZero() })
	leaving := o.collect(isEtcd, isDeleting, hasPlan, func(m *machine) bool { return m.Held })
	why := ""
	switch {
	case len(o.collect(isEtcd, isLive, o.etcd.isHidden)) > 0:
		why = "it waits for the connection to the cluster"
	case len(unreachable) > 0:
		why = about("it waits for the etcd members of machines whose nodes are unreachable:", notesOf(unreachable))
	case len(leaving) > 0:
		why = about("it waits for machines that are being deleted to leave etcd:", notesOf(leaving))
	default:
		return o.otherRuns()
	}
	o.set(o.Condition, corev1.ConditionUnknown, rkev1.ReasonWaiting, why)
	return why
}

// oneByOne brings machines to their plans, each when the previous machine is in order. It returns the verdict of the
// machine that is not done.
func (o *operation) oneByOne(phase string, machines []*machine, taskOf func(*machine) task) verdict {
	for _, m := range machines {
		t, step := taskOf(m), phase+": "+m.Name
		if t.problem != "" {
			return o.fail(step + ": " + t.problem)
		}
		if others := o.etcdBlocks(m, t.plan); others != "" && t.disrupts {
			return o.await(step, stepDeadline, step+": "+others, WakePlanSecret, WakeMachine)
		}
		if v := o.judge(step, stepDeadline, o.assign(t)); v.stop {
			return v
		}
	}
	return verdict{}
}

// judge turns the report of a step's machine into a verdict.
func (o *operation) judge(step string, deadline time.Duration, r report) verdict {
	switch r.state {
	case taskDone:
		return verdict{}
	case taskFailed:
		return o.fail(step + ": " + r.message)
	default:
		return o.await(step, deadline, step+": "+r.message, WakePlanSecret, WakeMachine)
	}
}

// allAtOnce brings machines to their plans at the same time. It does not wait for optional tasks. The two texts begin
// the messages about machines.
func (o *operation) allAtOnce(phase, waiting, failing string, tasks []task) verdict {
	var failed, missing []note
	for _, t := range tasks {
		switch r := o.assign(t); {
		case r.state == taskDone, t.optional:
		case r.state == taskFailed:
			failed = append(failed, note{t.m.Name, r.message})
		default:
			missing = append(missing, note{t.m.Name, r.message})
		}
	}
	switch {
	case len(failed) > 0:
		return o.fail(about(failing, failed))
	case len(missing) > 0:
		return o.await(phase, stepDeadline, about(waiting, missing), WakePlanSecret, WakeMachine)
	}
	return verdict{}
}

// isInterrupted reports that the machine has a plan that stops the distribution, and has not completed it.
func (m *machine) isInterrupted() bool {
	stopping := []string{render.OperationCertificates, render.OperationKeys, render.OperationStart}
	return !m.Plan.State.InSync && slices.Contains(stopping, render.OperationOf(m.Plan.State.Plan))
}

// startAgain repairs a machine after an operation that ended halfway. The distribution may be stopped there, and an
// ordinary plan would not start it. It reports whether this is still in progress.
func (p *pass) startAgain(m *machine) (bool, finding) {
	state := &m.Plan.State
	if !m.isInterrupted() {
		return false, finding{}
	}
	attempts := int64(0)
	for _, record := range p.status.Operations {
		attempts += record.Attempt
	}
	node := p.node(m)
	want := node.Operation(m.planInForce(), node.StartWork(strconv.FormatInt(attempts, 10)))
	if nodeplan.Equal(state.Plan, want) {
		return true, finding{p.progress.of(m), ReasonConfiguring}
	}
	data, err := nodeplan.Encode(want)
	if err != nil {
		return false, finding{}
	}
	m.getsPlan = true
	checksum := nodeplan.Checksum(data)
	p.deliver = append(p.deliver, DeliverPlan{
		Machine: m.Name, Secret: m.Plan.Name, Marks: m.marks, Evidence: m.keptEvidence(checksum, ""),
		Delivery: Delivery{Plan: data, Checksum: checksum, MaxFailures: nodeplan.NoLimit, FailureThreshold: 1},
	})
	return true, finding{msgApplied, ReasonConfiguring}
}

// reconcileSteps are the steps that bring machines to their desired plans.
var reconcileSteps = []step{
	{"elect", stepElect}, {"join", stepJoin}, {"init", stepInit}, {"etcd", stepEtcd},
	{"control-plane", stepControlPlane}, {"worker", stepWorker},
}

// reconcile walks the steps up to the named one. It returns the step that ended the walk and its wait.
func (o *operation) reconcile(last string) (stopped string, wait *Wait) {
	for _, s := range reconcileSteps {
		v := s.run(o.pass)
		if v.stop {
			return s.name, v.wait
		}
		o.trace = append(o.trace, Trace{Step: s.name, Why: v.why})
		if s.name == last {
			break
		}
	}
	return "", nil
}

// awaitStep is the wait of an operation for the wait that has ended a walk.
func (o *operation) awaitStep(step, message string, wait *Wait) verdict {
	return o.await(step, restartDeadline, message, WakePlanSecret, append(wait.Wakes, WakeMachine)...)
}
