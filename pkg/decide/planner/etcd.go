package planner

import (
	"slices"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Additions to messages about members that block a restart.
const (
	msgEtcdUnseen  = "; nodes cannot be looked at while the connection to the cluster is down"
	msgEtcdRefused = "; a node that refuses to be restarted has not proven that etcd can do without it, and tries again. If it cannot prove that, annotate the Machines " +
		"of all that refuse " + rkev1.EtcdProofSkipAnnotation + "=true to restart one after the other without"
	msgEtcdBroken = "; repair them or delete their Machines, or leave them out with annotation " + rkev1.RollOutSkipAnnotation +
		"=true, if the others are a majority of etcd"
)

// etcd is what a pass knows about the members of etcd.
type etcd struct{ *cluster }

// blockers names the machines that block a restart of this machine's etcd member. All other members must be proven
// healthy, by their probes under their current plans, so that etcd keeps its quorum. Machines that an operator left out
// do not block in three cases. The healthy others are a majority of all members. This member is down anyway. Or it is
// not known to work, and there is no majority even with it.
func (e *etcd) blockers(m *machine) []note {
	if !m.roles.ETCD {
		return nil
	}
	c := e.weighOthers(m)
	if !m.reportsEtcdDown() && !c.hasQuorum(0) && (m.etcdServes() || c.hasQuorum(1)) {
		c.blocking = append(c.blocking, c.skipped...)
		if c.all == 1 {
			c.blocking = append(c.blocking, e.upcoming()...)
		}
	}
	return c.blocking
}

// otherWeights counts the other etcd members, as seen from the member that is to restart.
type otherWeights struct {
	all, healthy, broken int
	skipped, blocking    []note
}

func (e *etcd) weighOthers(m *machine) otherWeights {
	var c otherWeights
	for _, o := range e.otherMembers(m) {
		c.all++
		switch e.weigh(m, o) {
		case countsHealthy:
			c.healthy++
		case countsBroken:
			c.broken++
		case countsSkipped:
			c.skipped = append(c.skipped, note{name: o.Name})
		case blocks:
			c.blocking = append(c.blocking, note{name: o.Name})
		}
	}
	return c
}

// hasQuorum reports that the healthy others, with as many more members as given, are a majority of all members.
func (c otherWeights) hasQuorum(more int) bool { return c.healthy+more > (c.all+1)/2 }

// restarting names the other etcd members that may be restarting now: they begin a change, or have a plan in progress.
// When this machine is stuck with a plan that it refused, members that refused theirs count too, unless they are stuck.
// They may give their proof and restart at any time.
func (e *etcd) restarting(m *machine) []note {
	var out []note
	for _, o := range e.otherMembers(m) {
		switch {
		case o.Plan == nil, o.Skip, !o.NodeLostSince.IsZero():
		case o.isStarting(), o.isApplying(), o.isRefusing() && e.isStuck(m) && !e.isStuck(o):
			out = append(out, note{name: o.Name})
		}
	}
	return out
}

// blockedBy is the finding for a machine that other members block, with advice for the user.
func (e *etcd) blockedBy(inTheWay []note) finding {
	message := about(msgEtcd, inTheWay)
	switch {
	case e.anyOf(inTheWay, func(o *machine) bool { return e.isBroken(o) && !o.keepsServing() }):
		message += msgEtcdBroken
	case e.anyOf(inTheWay, func(o *machine) bool { return o.keepsServing() && !o.PoolPaused && !o.Skip }):
		message += msgEtcdRefused
	case e.anyOf(inTheWay, e.isUnseen):
		message += msgEtcdUnseen
	}
	return finding{message, ReasonEtcdUnhealthy}
}

// anyOf reports that the predicate is true for one of the named machines.
func (e *etcd) anyOf(names []note, such func(*machine) bool) bool {
	return slices.ContainsFunc(slices.Concat(e.machines, e.unregistered), func(o *machine) bool {
		return slices.ContainsFunc(names, func(n note) bool { return n.name == o.Name }) && such(o)
	})
}

// asDelivered is the plan of a machine as it is delivered. A plan that restarts an etcd member begins with the node's
// own proof that the others can do without it. So does a plan that follows on one whose restart may still be
// outstanding.
func (e *etcd) asDelivered(m *machine) plan.NodePlan {
	switch {
	case !m.roles.ETCD, !m.hasJoined(), e.isDown(m), restartFree(&m.Plan.State, m.desired) && !m.mayStillRestart() && !m.wouldRestartApplied():
		return m.desired
	case (m.change == nodeplan.ChangeNone || !restartFree(&m.Plan.State, m.desired)) && e.isProofSkipped(m):
		// Plans that restart nothing are delivered without a check of the others, so they keep the proof.
		return m.desired
	}
	return e.withProof(m, m.desired)
}

// withProof is a plan that an etcd member carries out only after it proves that the others can do without it. Without
// other members it is the plan itself.
func (e *etcd) withProof(m *machine, want plan.NodePlan) plan.NodePlan {
	proof := render.EtcdProof{
		Others: len(e.otherMembers(m)), Before: m.mayHave(), Delivery: m.Plan.State.Checksum + " " + m.Plan.DeliveredAt.UTC().Format(time.RFC3339Nano),
	}
	// A node that still owes a proof may know members that Drover no longer sees. Therefore it keeps owing the proof.
	if proof.Others == 0 && (m.Plan.State.InSync || !render.HasEtcdProof(m.Plan.State.Plan)) {
		return want
	}
	return e.node(m).WithEtcdProof(want, proof)
}

// mayHave are the plans whose configuration a node may have now.
func (m *machine) mayHave() []plan.NodePlan { return m.Plan.mayHave() }

func (s *PlanSecret) mayHave() []plan.NodePlan {
	state := &s.State
	if state.AppliedPlan == nil {
		return []plan.NodePlan{state.Plan}
	}
	return []plan.NodePlan{*state.AppliedPlan, state.Plan}
}

// isProofSkipped reports that an operator lets a member restart without proof, and that nothing known speaks against
// it: the member is down, or the others work and keep the quorum.
func (e *etcd) isProofSkipped(m *machine) bool {
	if !m.SkipProof || len(e.blockers(m)) > 0 {
		return false
	}
	c := e.weighOthers(m)
	return m.reportsEtcdDown() || c.broken == 0 && (len(c.skipped) == 0 || c.hasQuorum(0))
}

// mayStillRestart reports that the current plan may still restart the machine, because it was not carried out
// completely.
func (m *machine) mayStillRestart() bool {
	state := &m.Plan.State
	return state.Phase == nodeplan.PhaseFailed || render.HasEtcdProof(state.Plan) && !state.InSync
}

// wouldRestartApplied reports that the current plan is not carried out, and that the desired plan may restart the
// machine, compared with the last applied plan. An operator may have skipped the proof of the current plan. That
// decision was about the other members as they were then.
func (m *machine) wouldRestartApplied() bool {
	state := &m.Plan.State
	return !state.InSync && (state.AppliedPlan == nil || !restartFree(&nodeplan.State{Plan: *state.AppliedPlan}, m.desired))
}

// mayRunAgain reports that another delivery may run the current plan once more.
func (m *machine) mayRunAgain() bool { return m.hasGivenUp() || m.mayStillRestart() }

// otherMembers are the other machines that may be members of etcd, including machines that are held until they leave
// it.
func (e *etcd) otherMembers(m *machine) []*machine {
	return slices.DeleteFunc(slices.Concat(e.machines, e.unregistered), func(o *machine) bool {
		return o == m || !o.roles.ETCD || o.Deleting && !o.Held || !e.mayBeMember(o)
	})
}

// weight is what another etcd member means for the restart of this one.
type weight int

const (
	countsHealthy weight = iota // it works, and keeps working
	countsBroken                // it does not work, and does not block
	countsSkipped               // it does not work, and an operator left it out
	blocks                      // it must work or be gone first
)

func (e *etcd) weigh(m, o *machine) weight {
	switch {
	case o.Deleting:
		return e.weighLeaver(m, o)
	case e.staysHealthy(m, o) && (!m.etcdServes() || !e.isUnseen(o)):
		return countsHealthy
	case !m.hasJoined() && !o.isChanging():
		return countsBroken // m was never a member: broken others are no reason to leave it broken
	case o.Skip:
		return countsSkipped
	case m.isIdle() && m.losesNothingNextTo(o):
		return countsBroken
	}
	return blocks
}

// losesNothingNextTo reports that both members would wait for each other forever: the other one does not work either,
// or it waits for a member that does not work. It is also true when both are drained and the other one does not work.
func (m *machine) losesNothingNextTo(o *machine) bool {
	return o.isWaiting() || m.isInDrain() && o.hasJoined() && o.isIdle() && !o.isStarting()
}

// staysHealthy reports that another member works, and keeps working while this one restarts. A member that refused its
// plan counts when this one refused too and the other one is stuck. It also counts when an operator skips the proof of
// both and this one is not stuck. An agent that only waits for its next try may restart before it reports, so it comes
// first.
func (e *etcd) staysHealthy(m, o *machine) bool {
	return o.etcdIsHealthy() || m.hasRefused() && o.keepsServing() && (e.isStuck(o) || m.SkipProof && o.SkipProof && !e.isStuck(m))
}

// isWaiting reports that an etcd member does not work and is not being changed, or that it refused its plan and this
// pass begins nothing with it.
func (m *machine) isWaiting() bool {
	return m.hasJoined() && (m.isDown() || m.hasRefused() && !m.isStarting())
}

// isUnseen reports that a rollout waits for a hidden machine. It waits as long as for a lost node, and not for machines
// that an operator left out. After that, the rollout may be what repairs the connection, and the node's own proof has
// to suffice.
func (e *etcd) isUnseen(o *machine) bool {
	return e.isHidden(o) && !o.Skip && (o.NodeUnknownSince.IsZero() || !e.isOverdue(o.NodeUnknownSince))
}

// isHidden reports that the node of a machine cannot be seen although an API server of the cluster works, so the
// machine may be off. When no API server works, this rollout may be what repairs it.
func (e *etcd) isHidden(o *machine) bool {
	return o.NodeUnknown && slices.ContainsFunc(e.machines, func(c *machine) bool {
		return c.roles.ControlPlane && !c.Deleting && (c.Plan.State.InSync || c.hasRefused()) && !slices.Contains(c.unhealthyProbes(), render.ProbeAPIServer)
	})
}

// isDown reports that the etcd member of a machine does not work and that the machine is not being changed.
func (m *machine) isDown() bool { return !m.etcdServes() && !m.isChanging() }

// isIdle is like isDown, but a machine that is only draining still counts.
func (m *machine) isIdle() bool { return !m.etcdServes() && !m.getsPlan && !m.isApplying() }

// weighLeaver is the weight of a member whose machine is being deleted.
func (e *etcd) weighLeaver(m, o *machine) weight {
	works := o.Plan != nil && o.Plan.State.Works()
	switch {
	case m.etcdServes() && (e.isLeaving(o) || o.Plan != nil && !works):
		return blocks // one leaves or one restarts, never both; a member that fails may be restarting
	case works && !e.isBroken(o):
		return countsHealthy
	}
	return countsBroken
}

// upcoming are new machines that will become etcd members. Of two members none can restart without an outage, of three
// each can.
func (e *etcd) upcoming() []note {
	var out []note
	for _, o := range slices.Concat(e.machines, e.unregistered) {
		if isEtcd(o) && isLive(o) && !o.Skip && !e.mayBeMember(o) && !o.gotPlan() && !e.isOverdue(o.CreatedAt) {
			out = append(out, note{name: o.Name})
		}
	}
	return out
}

// isLeaving reports that the etcd member of a deleting machine is being removed: the machine is held, and either no
// live machine is joined to it or its member does not work. The removal waits only until no machine is joined to a
// working member. Until the removal is done, the member counts toward the quorum. Every restart that moves a joined
// machine away would break that quorum.
func (e *etcd) isLeaving(m *machine) bool {
	return m.Held && (e.isBroken(m) || !slices.ContainsFunc(e.machines, func(o *machine) bool {
		return !o.Deleting && m.Marks.JoinURL != "" && o.Marks.JoinedTo == m.Marks.JoinURL
	}))
}

// isBroken reports that a machine's node is lost, that its plan Secret is unreadable, or that its plan failed or has
// not worked for a while. The code that removes members must judge the same way (planstore.Broken), or both wait for
// each other.
func (e *etcd) isBroken(m *machine) bool {
	switch {
	case !m.NodeLostSince.IsZero():
		return true
	case m.Plan == nil:
		return false
	case m.Plan.Malformed != "":
		return true
	}
	return m.Plan.State.PlanExists && !m.Plan.State.Works() && (m.Plan.State.Failed || e.isOverdue(m.Plan.DeliveredAt))
}

// mayBeMember reports that a machine may have an etcd member. A machine that got its first plan and never reported has
// none after a while. A machine that a restore has stopped is not in the new cluster until it starts again.
func (e *etcd) mayBeMember(m *machine) bool {
	switch {
	case m.Plan == nil:
		return m.gotPlan()
	case m.stopped():
		return m.getsPlan
	case m.getsPlan || m.hasJoined() || m.Plan.State.FailureCount > 0 || m.Plan.Malformed != "":
		return true
	}
	return m.Plan.State.PlanExists && !e.isOverdue(m.Plan.DeliveredAt)
}

// hasJoined reports that a machine has become part of the cluster before.
func (m *machine) hasJoined() bool {
	return m.HasNode || m.marks.JoinURL != "" || m.Plan != nil && !neverApplied(&m.Plan.State)
}

// etcdIsHealthy reports that the etcd member of a machine is proven to work, and keeps working.
func (m *machine) etcdIsHealthy() bool {
	return m.etcdStaysUp() && m.Plan.State.InSync && !m.isInDrain()
}

// etcdStaysUp reports that the etcd member of a machine works, and that this pass begins nothing with the machine.
func (m *machine) etcdStaysUp() bool { return m.etcdServes() && !m.isStarting() }

// isStarting reports that this pass delivers a plan to the machine or requests its drain.
func (m *machine) isStarting() bool { return m.getsPlan || m.getsDrain }

// keepsServing reports that a node refuses its plan, its etcd member works, and this pass begins nothing with it. A
// node that was drained for that plan counts while it stays drained.
func (m *machine) keepsServing() bool {
	return m.etcdStaysUp() && m.isRefusing() && (!m.isInDrain() || m.Plan.Drain.isDone())
}

// isDrainedInVain reports that the etcd member works, and its node is drained for a change that it does not get yet.
func (m *machine) isDrainedInVain() bool { return m.etcdStaysUp() && m.Plan.Drain.isDone() }

// reportsEtcdDown reports that the node itself reports its etcd member as down, so a restart loses nothing. Another
// failing part, or a missing report, is no evidence.
func (m *machine) reportsEtcdDown() bool {
	status, told := m.Plan.State.ProbeStatuses[render.ProbeETCD]
	return told && !status.Healthy
}

// etcdServes reports that the etcd member of a machine works: its plan Secret says so, and its node is not lost.
func (m *machine) etcdServes() bool { return m.NodeLostSince.IsZero() && EtcdServes(m.Plan) }

// EtcdServes reports that the last report of a machine proves that its etcd member works. A plan that the node refuses,
// because etcd cannot do without it, does not change that. An applied plan of a restore proves the opposite: etcd is
// down. The code that removes members asks the same question (planstore.EtcdServes). Otherwise a change could wait for
// a removal that waits for the change.
func EtcdServes(secret *PlanSecret) bool {
	if secret == nil || secret.Malformed != "" || secret.stopped() || secret.restored() {
		return false
	}
	return (secret.State.InSync && !secret.State.Failed || secret.hasRefused()) && len(secret.unhealthyProbes()) == 0
}

func (m *machine) hasRefused() bool { return m.Plan.hasRefused() }

// isRefusing reports that a node refused its current plan, and has not carried it out before either.
func (m *machine) isRefusing() bool { return m.Plan != nil && m.hasRefused() && !m.Plan.State.InSync }

// hasRefused reports that the node did not carry out its plan, because it could not prove that etcd can do without it.
func (s *PlanSecret) hasRefused() bool {
	state := &s.State
	if !render.HasEtcdProof(state.Plan) || state.FailedChecksum != state.Checksum {
		return false
	}
	failure, ok := nodeplan.FailureOf(state.FailedOutput)
	// Other agents do not report the failed instruction, but keep its output, which is empty after a successful proof.
	return ok && failure.Instruction == render.EtcdProofInstruction || !ok && len(state.FailedOutput[render.EtcdProofInstruction]) > 0
}

// asksTooMuch reports that a node refused a plan that asks for more healthy members than a new plan would. Some members
// have left since the delivery, so the node waits for more than necessary, possibly forever.
func (e *etcd) asksTooMuch(m *machine) bool {
	if !m.isRefusing() {
		return false
	}
	proof := render.EtcdProofOf(m.Plan.State.Plan)
	proof.Others = len(e.otherMembers(m))
	return m.proofNeeds() > proof.Needs()
}

// proofNeeds is how many other members the node must prove healthy.
func (m *machine) proofNeeds() int { return render.EtcdProofOf(m.Plan.State.Plan).Needs() }

// isStuck reports that a machine that refuses its plan cannot succeed by itself: its agent no longer tries, or the plan
// asks for more members than exist. Then another machine that refused may restart. Two machines that wait for each
// other, and may both still give their proof, wait for their agents.
func (e *etcd) isStuck(m *machine) bool {
	return m.isOutOfTries() || m.Plan.State.Phase == nodeplan.PhaseFailed || m.proofNeeds() > len(e.otherMembers(m))
}

// isChanging reports that a member is being changed, by this pass or an earlier one.
func (m *machine) isChanging() bool {
	return m.Plan != nil && m.hasJoined() && (m.isStarting() || m.isInDrain() || m.isApplying())
}

// isApplying reports that the delivered plan is neither carried out nor failed.
func (m *machine) isApplying() bool {
	return m.Plan.State.PlanExists && !m.Plan.State.InSync && !m.Plan.State.Failed
}
