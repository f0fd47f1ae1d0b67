package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Steps of tickets. They are stored.
const (
	ticketInit         = "init"
	ticketEtcd         = "etcd"
	ticketControlPlane = "control-plane"
	ticketWorker       = "worker"
)

const (
	// MaxPlanSize is the largest plan that is delivered, in bytes. It is the budget of one machine, for clusters of
	// every size. A Secret holds 1 MiB, which contains the plan twice and the node's reports.
	MaxPlanSize = 400 << 10
	// MaxSecretSize is the maximum of data in a plan Secret after a plan is delivered and applied, in bytes. The API
	// refuses Secrets above 1 MiB. The difference is for further reports of the agent.
	MaxSecretSize = 1000 << 10
)

// Messages about single machines. Users and their scripts know those about the agent's progress.
const (
	msgCheckIn      = "waiting for agent to check in and apply initial plan"
	msgApplied      = "waiting for plan to be applied"
	msgFailed       = "failure while applying plan"
	msgProbes       = "waiting for probes: "
	msgKubelet      = "waiting for kubelet to update"
	msgPreBootstrap = "waiting for cluster pre-bootstrap to complete"
	msgConnect      = "waiting for cluster agent to connect"
	msgPending      = "configuration change pending"
	msgStopped      = "; the change goes to no other machine while it does not work on "
	msgPoolPaused   = "configuration change pending; the machine pool is paused"
	msgEtcd         = "configuration change pending; waiting for the etcd members of"
	msgJoinEtcd     = "waiting for its turn to join etcd, after "
	msgDraining     = "draining node"
	msgUncordon     = "waiting for uncordon to finish"
	msgLeftOut      = "is left out of the roll-out by annotation; "
	msgNodeLost     = "; its node is unreachable since "
	msgNodeLostFor  = ". Repair it, delete the Machine, or annotate it " + rkev1.RollOutSkipAnnotation + "=true to go on without it"
	msgTooLarge     = "the plan has %d KiB, at most %d KiB are delivered%s"
	msgNoRoom       = "the plan does not fit into plan secret %s beside what its node reported; " +
		"delete the keys with the names of outputs from the secret%s"
	msgLargest = "; the largest parts are "
)

// tier is a group of machines that are configured together, before the next group.
type tier struct {
	name    string
	members []*machine
	// ticket is the step that tickets of this tier name. Plans that restart something need a ticket. First plans need
	// one only where other machines depend on them.
	ticket       string
	ticketFirsts bool
	// concurrency is how many members may be unavailable at a time, as users write it. Empty means 1.
	concurrency string
	// join returns the server that a machine joins, or why there is none.
	join func(*machine) (joinURL, problem string)
	// failureThreshold is how many attempts a machine has before its plan counts as failed; 0 means 1.
	failureThreshold int
}

// finding is the result of a tier for one machine.
type finding struct {
	message string // empty: in order
	reason  Reason
}

// tier brings every member one step closer to its plan. It returns a wait unless all members are in order. Two kinds of
// members do not hold up the tier, but the cluster is not in order at the end of the walk. Plans of the first kind are
// too large or cannot be rendered by this program, which only the user can change. The second kind is left out of the
// rollout.
func (p *pass) tier(t tier) *Wait {
	r := p.newRollOut(t)
	r.run()
	byReason := map[Reason][]note{}
	for _, m := range t.members {
		p.noteMachine(m, m.found.message)
		if m.found.message != "" {
			byReason[m.found.reason] = append(byReason[m.found.reason], note{m.Name, m.found.message})
		}
	}
	p.noteUnwell(t)
	p.hold(t.name, byReason)
	wait := tierWait(t.name, byReason)
	if wait == nil && slices.ContainsFunc(t.members, p.isBehindVersion) {
		return p.held
	}
	t.needsPerson(wait)
	// Others wait for their turn to join.
	changes := func(n note) bool { return strings.HasPrefix(n.message, msgPending) }
	if wait != nil && r.failedAt != "" && slices.ContainsFunc(byReason[ReasonChangePending], changes) {
		wait.Message += msgStopped + r.failedAt // said once, and not on each machine that waits
	}
	return wait
}

// needsPerson marks the wait as failed when servers are off for longer than the deadline. Later machines must not be
// newer than these servers, so only the user can decide to go on without them.
func (t tier) needsPerson(wait *Wait) {
	var stranded []note
	for _, m := range t.members {
		if wait != nil && m.isStranded && m.found.reason == wait.Reason {
			stranded = append(stranded, note{name: m.Name})
		}
	}
	if len(stranded) == 0 {
		return
	}
	wait.Failed = true
	if !strings.HasSuffix(wait.Message, msgNodeLostFor) { // several names do not show which one it is
		wait.Message += about("; the nodes are unreachable for long of", stranded) + msgNodeLostFor
	}
}

// hold remembers why the cluster is not in order because of machines that do not hold up others.
func (p *pass) hold(name string, byReason map[Reason][]note) {
	if notes := byReason[ReasonPlanTooLarge]; len(notes) > 0 && p.held == nil {
		p.held = failure(ReasonPlanTooLarge, about("configuring "+name+" node(s)", notes), WakePlanSecret, WakeMachine, WakeControlPlane,
			WakeConfigObject)
	}
	if notes := byReason[ReasonVersionUnknown]; len(notes) > 0 && p.held == nil {
		p.held = failure(ReasonVersionUnknown, about("configuring "+name+" node(s)", notes), WakePlanSecret, WakeMachine, WakeControlPlane, WakeCluster)
	}
	if notes := byReason[ReasonLeftOut]; len(notes) > 0 && p.leftOut == nil {
		p.leftOut = waitFor(ReasonLeftOut, about("configuring "+name+" node(s)", notes), WakeMachine, WakePlanSecret, WakeCluster, WakeControlPlane)
	}
}

// isBehindVersion reports that a server stays at another Kubernetes version than the requested one, because no plan can
// be delivered to it. Nodes must not be newer than their servers, so later tiers wait.
func (p *pass) isBehindVersion(m *machine) bool {
	held := m.found.reason == ReasonPlanTooLarge || m.found.reason == ReasonVersionUnknown
	return held && m.roles.Server() && m.Plan.State.PlanExists &&
		(m.marks.Version != "" && m.marks.Version != p.s.ControlPlane.Spec.KubernetesVersion || !p.kubeletCurrent(m))
}

// tierWait is about the machines that change or fail. Machines whose turn comes later appear only when there are no
// others.
func tierWait(name string, byReason map[Reason][]note) *Wait {
	verbs := map[Reason]string{ReasonUncordoning: "uncordoning", ReasonDraining: "draining", ReasonDrainOverdue: "draining"}
	for _, reasons := range [][]Reason{
		{ReasonUncordoning}, {ReasonDrainOverdue, ReasonDraining}, {ReasonRenderFailed, ReasonConfiguring}, {ReasonEtcdUnhealthy}, {ReasonPoolPaused, ReasonChangePending},
	} {
		var notes []note
		reason := reasons[0]
		for _, r := range slices.Backward(reasons) {
			if found := byReason[r]; len(found) > 0 {
				notes, reason = append(notes, found...), r
			}
		}
		if len(notes) == 0 {
			continue
		}
		verb := cmp.Or(verbs[reason], "configuring")
		wait := waitFor(reason, about(verb+" "+name+" node(s)", notes), WakePlanSecret, WakeMachine, WakeControlPlane, WakeCluster,
			WakeConfigObject, WakeManagement)
		wait.Failed = reason == ReasonRenderFailed || reason == ReasonDrainOverdue
		return wait
	}
	return nil
}

// noteUnwell remembers the first tier in which other controllers report problems of machines.
func (p *pass) noteUnwell(t tier) {
	var failing, unready []note
	for _, m := range t.members {
		switch {
		case m.Health.Failing:
			failing = append(failing, note{m.Name, m.Health.Message})
		case m.Health.NotReady:
			unready = append(unready, note{m.Name, m.Health.Message})
		}
	}
	switch {
	case p.unwell != "":
	case len(failing) > 0:
		p.unwell = about("failing "+t.name+" machine(s)", failing)
	case len(unready) > 0:
		p.unwell = about("non-ready "+t.name+" machine(s)", unready)
	}
}

// inputFor is the input for rendering the plan of a machine.
func (p *pass) inputFor(m *machine, joinURL string) render.Input {
	in := p.input
	in.Version = p.versionFor(m)
	in.InitNode = m.marks.InitNode
	in.JoinURL = joinURL
	_, byHand := m.Annotations[rkev1.JoinURLAutosetDisabledAnnotation]
	in.Machine = render.Machine{
		Namespace:              p.s.ControlPlane.Namespace,
		Name:                   m.Name,
		UID:                    m.UID,
		Labels:                 m.Labels,
		Annotations:            m.Annotations,
		Roles:                  m.roles,
		Windows:                m.windows,
		NodeName:               m.Labels[rkev1.NodeNameLabel],
		Provisioned:            m.Provisioned,
		Driver:                 m.Driver,
		JoinURLAutosetDisabled: byHand,
	}
	return in
}

// render returns the plan that a machine should have.
func (p *pass) render(m *machine, joinURL string) (plan.NodePlan, finding) {
	in := p.inputFor(m, joinURL)
	desired, warnings, err := p.plan(in)
	for _, w := range warnings {
		p.warnings[w] = true
	}
	var pending *render.PendingError
	switch {
	case errors.As(err, &pending):
		return desired, finding{pending.Message, ReasonConfiguring}
	case err != nil:
		return desired, finding{"cannot render the plan: " + err.Error(), ReasonRenderFailed}
	}
	if problem := p.misplaces(m, desired); problem != "" {
		return desired, finding{"cannot deliver the plan: " + problem, ReasonRenderFailed}
	}
	return withdraw(render.NodeOf(in), &m.Plan.State, desired), finding{}
}

// plan renders a plan, or takes it from the memo.
func (p *pass) plan(in render.Input) (plan.NodePlan, []render.Warning, error) {
	if p.s.Memo == nil {
		return p.s.Versions.Plan(in)
	}
	return p.s.Memo.Plan(p.s.Versions, in)
}

// encode returns the delivery of a plan, or why it cannot be delivered.
func (p *pass) encode(t tier, m *machine) (Delivery, finding) {
	if err := nodeplan.Check(m.desired); err != nil {
		return Delivery{}, finding{"cannot deliver the plan: " + err.Error(), ReasonRenderFailed}
	}
	encoded, err := nodeplan.Encode(p.asDelivered(m))
	if err != nil {
		return Delivery{}, finding{"cannot encode the plan", ReasonRenderFailed}
	}
	if message := m.tooLarge(m.desired, encoded, &p.s.ControlPlane.Spec); message != "" {
		return Delivery{}, finding{message, ReasonPlanTooLarge}
	}
	maxFailures, threshold := t.limits(m)
	return Delivery{Plan: encoded, Checksum: nodeplan.Checksum(encoded), MaxFailures: maxFailures, FailureThreshold: threshold}, finding{}
}

// send delivers a plan, together with its marks.
func (p *pass) send(t tier, m *machine) finding {
	delivery, found := p.encode(t, m)
	if found.message != "" {
		return found
	}
	first := !m.Plan.State.PlanExists
	effect := DeliverPlan{Machine: m.Name, Secret: m.Plan.Name, Delivery: delivery, First: first}
	evidence := p.evidenceOf(m)
	switch kept, ok := m.evidence(); {
	case ok && m.keepsPlan:
		evidence = kept
	case m.isDeferred:
		evidence.Other[partRelease] = kept.Other[partRelease]
	}
	switch {
	case first && t.ticketFirsts:
		p.addTicket(t.ticket, m, delivery.Checksum, causeNewMachine)
	case !first && (m.mayRunAgain() || !restartFree(&m.Plan.State, m.desired)):
		effect.Cause = p.causeOf(m)
		evidence = evidence.because(effect.Cause)
		p.addTicket(t.ticket, m, delivery.Checksum, cmp.Or(string(effect.Cause), causeRetry))
	}
	m.marks.RenderVersion = p.versionFor(m)
	m.marks.JoinedTo = m.joins
	if !m.keepsPlan {
		m.marks.Version = p.s.ControlPlane.Spec.KubernetesVersion
	}
	m.getsPlan = true
	effect.Marks, effect.Evidence, effect.Again = m.marks, evidence.about(delivery.Checksum), m.hasGivenUp()
	p.deliver = append(p.deliver, effect)
	if neverApplied(&m.Plan.State) {
		return finding{msgCheckIn, ReasonConfiguring}
	}
	return finding{msgApplied, ReasonConfiguring}
}

// tooLarge says what to do about a plan that its Secret cannot hold. It is empty when the plan fits. The Secret holds
// the reports, the plan, and the copy of the applied plan: first the old plan, later the new one.
func (m *machine) tooLarge(p plan.NodePlan, encoded []byte, spec *rkev1.RKEControlPlaneSpec) string {
	largest := func() string {
		if parts := render.Largest(spec, p, namedMax); len(parts) > 0 {
			return msgLargest + strings.Join(parts, ", ")
		}
		return ""
	}
	switch {
	case len(encoded) > MaxPlanSize:
		return fmt.Sprintf(msgTooLarge, len(encoded)>>10, MaxPlanSize>>10, largest())
	case len(encoded)+max(len(encoded), m.Plan.AppliedSize)+m.Plan.ReportSize > MaxSecretSize:
		return fmt.Sprintf(msgNoRoom, m.Plan.Name, largest())
	}
	return ""
}

// causeNewMachine is on tickets for first plans. They disrupt nothing, but decide which machine starts the cluster.
const causeNewMachine = "new machine"

// causeRetry is on tickets for another try of a plan that disrupted nothing.
const causeRetry = "another try"

// addTicket puts a machine on the ticket of this pass. The ticket keeps those machines of the stored ticket that are
// not done yet. Of several causes it has the first.
func (p *pass) addTicket(step string, m *machine, checksum, cause string) {
	if p.ticket == nil {
		p.ticket = &rkev1.DisruptionTicket{Step: step, Cause: cause, Machines: p.openTicket(step)}
	}
	p.ticket.Machines = slices.DeleteFunc(p.ticket.Machines, func(t rkev1.TicketMachine) bool { return t.MachineUID == m.UID })
	p.ticket.Machines = append(p.ticket.Machines, rkev1.TicketMachine{MachineUID: m.UID, PlanChecksum: checksum})
	slices.SortFunc(p.ticket.Machines, func(a, b rkev1.TicketMachine) int { return strings.Compare(string(a.MachineUID), string(b.MachineUID)) })
}

// openTicket are the machines of the stored ticket that have its plan and are not in order yet.
func (p *pass) openTicket(step string) []rkev1.TicketMachine {
	stored := p.s.ControlPlane.Status.Ticket
	if stored == nil || stored.Step != step {
		return nil
	}
	open := func(t rkev1.TicketMachine) bool {
		return slices.ContainsFunc(p.machines, func(m *machine) bool {
			return m.UID == t.MachineUID && isLive(m) && m.Plan.State.Checksum == t.PlanChecksum && p.progress(m) != ""
		})
	}
	return slices.DeleteFunc(slices.Clone(stored.Machines), func(t rkev1.TicketMachine) bool { return !open(t) })
}

// onlyEndsOperation reports that the machine only has to replace the plan of an operation, which changes nothing that
// runs.
func (m *machine) onlyEndsOperation() bool {
	return render.OperationOf(m.Plan.State.Plan) != "" && restartFree(&m.Plan.State, m.desired)
}

// restartFree reports that a change reaches the node without a restart: the instructions stay the same. They contain a
// stamp over all files that need a restart.
func restartFree(state *nodeplan.State, desired plan.NodePlan) bool {
	if render.OperationOf(state.Plan) != "" {
		return render.SameInstallation(state.Plan, desired)
	}
	return slices.EqualFunc(render.WithoutEtcdProof(state.Plan).Instructions, render.WithoutEtcdProof(desired).Instructions, sameInstruction)
}

func sameInstruction(a, b plan.OneTimeInstruction) bool {
	return a.SaveOutput == b.SaveOutput && a.Name == b.Name && a.Image == b.Image && a.Command == b.Command && a.Script == b.Script &&
		slices.Equal(a.Env, b.Env) && slices.Equal(a.Args, b.Args)
}

func neverApplied(s *nodeplan.State) bool {
	return s.AppliedPlan == nil && s.AppliedChecksum == ""
}

// unhealthyProbes are the names of the plan's probes that have not passed, including those without a report.
func (m *machine) unhealthyProbes() []string { return m.Plan.unhealthyProbes() }

func (s *PlanSecret) unhealthyProbes() []string {
	var names []string
	for name := range s.State.Plan.Probes {
		if !s.State.ProbeStatuses[name].Healthy {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// progress says what a machine with the right plan still waits for, empty when it is in order.
func (p *pass) progress(m *machine) string {
	if message := p.planProgress(m); message != "" || m.isInDrain() {
		return cmp.Or(message, msgUncordon)
	}
	return p.nodeProgress(m)
}

// planProgress is the agent's progress with the plan.
func (p *pass) planProgress(m *machine) string {
	state := &m.Plan.State
	unhealthy := m.unhealthyProbes()
	switch {
	case state.Failed:
		return p.failureOf(m)
	case neverApplied(state) && !state.InSync:
		return msgCheckIn
	case state.Plan.Error != "":
		return state.Plan.Error
	case !state.InSync:
		return msgApplied
	case len(unhealthy) > 0:
		return msgProbes + strings.Join(unhealthy, ", ")
	}
	return ""
}

// nodeProgress is the node's progress after the plan was applied.
func (p *pass) nodeProgress(m *machine) string {
	switch {
	case !p.kubeletCurrent(m):
		return msgKubelet
	case m.roles.ControlPlane && p.s.ClusterAgent.PreBootstrap:
		return msgPreBootstrap
	case m.roles.ControlPlane && !p.s.Connected && !p.s.AgentDeployed:
		return msgConnect
	}
	return ""
}

// noteMachine reports on the Machine what the planner does with it. Machines without a host have more important news.
func (p *pass) noteMachine(m *machine, message string) {
	if !m.InfrastructureReady {
		return
	}
	want := Condition{Status: corev1.ConditionTrue, Reason: rkev1.ConditionReconciled}
	if message != "" {
		want = Condition{Status: corev1.ConditionUnknown, Reason: rkev1.ReasonWaiting, Message: message}
	}
	if m.Reconciled != want {
		p.report = append(p.report, SetMachineCondition{Machine: m.Name, Condition: want})
	}
}
