package planner

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Steps of tickets. They are stored.
const (
	ticketInit         = "init"
	ticketEtcd         = "etcd"
	ticketControlPlane = "control-plane"
	ticketWorker       = "worker"
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
	msgNodeLostFor  = ". Repair it, delete the Machine, or annotate it " + rkev1.RollOutSkipAnnotation +
		"=true to go on without it"
	msgTooLarge = "the plan has %d KiB, at most %d KiB are delivered%s"
	msgNoRoom   = "the plan does not fit into plan secret %s together with the reports of its node; " +
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
	stranded := notesOf(only(t.members, func(m *machine) bool {
		return wait != nil && m.isStranded && m.found.reason == wait.Reason
	}))
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
		p.held = failure(ReasonPlanTooLarge, about("configuring "+name+" node(s)", notes), WakePlanSecret, WakeMachine,
			WakeControlPlane,
			WakeConfigObject)
	}
	if notes := byReason[ReasonVersionUnknown]; len(notes) > 0 && p.held == nil {
		p.held = failure(ReasonVersionUnknown, about("configuring "+name+" node(s)", notes), WakePlanSecret,
			WakeMachine, WakeControlPlane, WakeCluster)
	}
	if notes := byReason[ReasonLeftOut]; len(notes) > 0 && p.leftOut == nil {
		p.leftOut = waitFor(ReasonLeftOut, about("configuring "+name+" node(s)", notes), WakeMachine, WakePlanSecret,
			WakeCluster, WakeControlPlane)
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
	verbs := map[Reason]string{ReasonUncordoning: "uncordoning", ReasonDraining: "draining",
		ReasonDrainOverdue: "draining"}
	for _, reasons := range [][]Reason{
		{ReasonUncordoning}, {ReasonDrainOverdue, ReasonDraining}, {ReasonRenderFailed, ReasonConfiguring},
		{ReasonEtcdUnhealthy}, {ReasonPoolPaused, ReasonChangePending},
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
		wait := waitFor(reason, about(verb+" "+name+" node(s)", notes), WakePlanSecret, WakeMachine, WakeControlPlane,
			WakeCluster,
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
	p.ticket.Machines = slices.DeleteFunc(p.ticket.Machines, func(t rkev1.TicketMachine) bool {
		return t.MachineUID == m.UID
	})
	p.ticket.Machines = append(p.ticket.Machines, rkev1.TicketMachine{MachineUID: m.UID, PlanChecksum: checksum})
	slices.SortFunc(p.ticket.Machines, func(a, b rkev1.TicketMachine) int {
		return strings.Compare(string(a.MachineUID), string(b.MachineUID))
	})
}

// openTicket are the machines of the stored ticket that have its plan and are not in order yet.
func (p *pass) openTicket(step string) []rkev1.TicketMachine {
	stored := p.s.ControlPlane.Status.Ticket
	if stored == nil || stored.Step != step {
		return nil
	}
	open := func(t rkev1.TicketMachine) bool {
		return slices.ContainsFunc(p.machines, func(m *machine) bool {
			has := m.UID == t.MachineUID && isLive(m) && m.Plan.State.Checksum == t.PlanChecksum
			return has && p.progress.of(m) != ""
		})
	}
	return slices.DeleteFunc(slices.Clone(stored.Machines), func(t rkev1.TicketMachine) bool { return !open(t) })
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
