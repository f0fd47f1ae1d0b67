package planner

import (
	"cmp"
	"fmt"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

const (
	// MaxPlanSize is the largest plan that is delivered, in bytes. It is the budget of one machine, for clusters of
	// every size. A Secret holds 1 MiB, which contains the plan twice and the node's reports.
	MaxPlanSize = 400 << 10
	// MaxSecretSize is the maximum of data in a plan Secret after a plan is delivered and applied, in bytes. The API
	// refuses Secrets above 1 MiB. The difference is for further reports of the agent.
	MaxSecretSize = 1000 << 10
)

// encode returns the delivery of a plan, or why it cannot be delivered.
func (r *rollOut) encode(m *machine) (Delivery, finding) {
	if err := nodeplan.Check(m.desired); err != nil {
		return Delivery{}, finding{"cannot deliver the plan: " + err.Error(), ReasonRenderFailed}
	}
	encoded, err := nodeplan.Encode(r.etcd.asDelivered(m))
	if err != nil {
		return Delivery{}, finding{"cannot encode the plan", ReasonRenderFailed}
	}
	if message := m.tooLarge(m.desired, encoded, &r.s.ControlPlane.Spec); message != "" {
		return Delivery{}, finding{message, ReasonPlanTooLarge}
	}
	return Delivery{
		Plan: encoded, Checksum: nodeplan.Checksum(encoded), MaxFailures: m.countAfter(retryBudget),
		FailureThreshold: 1, // the first failure counts, because some agents reset their count
	}, finding{}
}

// send delivers a plan, together with its marks.
func (r *rollOut) send(m *machine) finding {
	delivery, found := r.encode(m)
	if found.message != "" {
		return found
	}
	first := !m.Plan.State.PlanExists
	effect := DeliverPlan{Machine: m.Name, Secret: m.Plan.Name, Delivery: delivery, First: first}
	evidence := r.evidenceFor(m)
	switch {
	case first && r.tier.ticketFirsts:
		r.addTicket(r.tier.ticket, m, delivery.Checksum, causeNewMachine)
	case !first && (m.mayRunAgain() || !restartFree(&m.Plan.State, m.desired)):
		effect.Cause = r.causes.causeOf(m)
		evidence = evidence.because(effect.Cause)
		r.addTicket(r.tier.ticket, m, delivery.Checksum, cmp.Or(string(effect.Cause), causeRetry))
	}
	m.marks.RenderVersion = r.versionFor(m)
	m.marks.JoinedTo, m.marks.AgentPin = m.joins, m.agentPin
	if !m.keepsPlan {
		m.marks.Version = r.s.ControlPlane.Spec.KubernetesVersion
	}
	if m.marks.RenderVersion == AsFound && m.marks.Found != "" {
		m.marks.Found = evidence.about(delivery.Checksum)
	}
	m.getsPlan = true
	effect.Marks, effect.Evidence, effect.Again = m.marks, evidence.about(delivery.Checksum), m.hasGivenUp()
	r.deliver = append(r.deliver, effect)
	if neverApplied(&m.Plan.State) {
		return finding{msgCheckIn, ReasonConfiguring}
	}
	return finding{msgApplied, ReasonConfiguring}
}

// evidenceFor is the evidence for the plan that a machine gets.
func (r *rollOut) evidenceFor(m *machine) evidence {
	evidence := r.causes.evidenceOf(m)
	switch kept, ok := m.evidence(); {
	case ok && m.keepsPlan:
		return kept
	case m.isDeferred:
		evidence.Other[partRelease] = kept.Other[partRelease]
	}
	return evidence
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
