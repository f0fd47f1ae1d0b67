package planner

import (
	"time"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// asDelivered is the plan of a machine as it is delivered. A plan that restarts an etcd member begins with the node's
// own proof that the others can do without it. So does a plan that follows on one that may still restart the member.
func (e *etcd) asDelivered(m *machine) plan.NodePlan {
	isFree := restartFree(&m.Plan.State, m.desired)
	switch {
	case !m.roles.ETCD, !m.hasJoined(), m.down(), isFree && !m.mayStillRestart() && !m.wouldRestartApplied():
		return m.desired
	case (m.change == nodeplan.ChangeNone || !isFree) && e.isProofSkipped(m):
		// Plans that restart nothing are delivered without a check of the others, so they keep the proof.
		return m.desired
	}
	return e.withProof(m, m.desired)
}

// withProof is a plan that an etcd member carries out only after it proves that the others can do without it. Without
// other members it is the plan itself.
func (e *etcd) withProof(m *machine, want plan.NodePlan) plan.NodePlan {
	proof := render.EtcdProof{
		Others: len(e.otherMembers(m)), Before: m.Plan.mayHave(),
		Delivery: m.Plan.State.Checksum + " " + m.Plan.DeliveredAt.UTC().Format(time.RFC3339Nano),
	}
	// A node that still owes a proof may know members that Drover no longer sees. Therefore it keeps owing the proof.
	if proof.Others == 0 && (m.Plan.State.InSync || !render.HasEtcdProof(m.Plan.State.Plan)) {
		return want
	}
	return e.node(m).WithEtcdProof(want, proof)
}

// isProofSkipped reports that the user lets a member restart without proof, and that nothing known speaks against it:
// the member is down, or the others work and keep the quorum.
func (e *etcd) isProofSkipped(m *machine) bool {
	if !m.SkipProof || len(e.blockers(m)) > 0 {
		return false
	}
	c := e.weighOthers(m)
	return m.reportsEtcdDown() || c.broken == 0 && (len(c.skipped) == 0 || c.hasQuorum(0))
}

// mayHave are the plans whose configuration a node may have now.
func (s *PlanSecret) mayHave() []plan.NodePlan {
	state := &s.State
	if state.AppliedPlan == nil {
		return []plan.NodePlan{state.Plan}
	}
	return []plan.NodePlan{*state.AppliedPlan, state.Plan}
}

// mayStillRestart reports that the current plan may still restart the machine, because it was not carried out
// completely.
func (m *machine) mayStillRestart() bool {
	state := &m.Plan.State
	return state.Phase == nodeplan.PhaseFailed || render.HasEtcdProof(state.Plan) && !state.InSync
}

// wouldRestartApplied reports that the current plan is not carried out, and that the desired plan may restart the
// machine, compared with the last applied plan. The user may have skipped the proof of the current plan. That decision
// was about the other members as they were then.
func (m *machine) wouldRestartApplied() bool {
	state := &m.Plan.State
	return !state.InSync &&
		(state.AppliedPlan == nil || !restartFree(&nodeplan.State{Plan: *state.AppliedPlan}, m.desired))
}

// mayRunAgain reports that another delivery may run the current plan once more.
func (m *machine) mayRunAgain() bool { return m.hasGivenUp() || m.mayStillRestart() }

// isRefusing reports that a node refused its current plan, and has not carried it out before either.
func (m *machine) isRefusing() bool { return m.Plan != nil && m.hasRefused() && !m.Plan.State.InSync }

func (m *machine) hasRefused() bool { return m.Plan.hasRefused() }

// hasRefused reports that the node did not carry out its plan, because it could not prove that etcd can do without it.
func (s *PlanSecret) hasRefused() bool {
	state := &s.State
	if !render.HasEtcdProof(state.Plan) || state.FailedChecksum != state.Checksum {
		return false
	}
	if failure, ok := nodeplan.FailureOf(state.FailedOutput); ok {
		return failure.Instruction == render.EtcdProofInstruction
	}
	// Other agents do not report the failed instruction, but keep its output, which is empty after a successful proof.
	return len(state.FailedOutput[render.EtcdProofInstruction]) > 0
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
