package events

import (
	"bytes"
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// PlanChanged returns the events of a change of a plan Secret about its Machine. From the Secret's data they contain
// only the checksum of the plan. A ticket that names the machine gives the cause of a drain; nil gives none.
func PlanChanged(machine *clusterv1.Machine, ticket *rkev1.DisruptionTicket, before, after *corev1.Secret) []Event {
	if after.Type != rkev1.SecretTypeMachinePlan {
		return nil
	}
	l := about(machineKind, machine)
	delivery(l, before, after)
	if after.Annotations[rkev1.PlanProbesPassedAnnotation] != "" &&
		before.Annotations[rkev1.PlanProbesPassedAnnotation] == "" {
		l.normal(ReasonPlanApplied, "Plan "+checksum(after)+" was applied and all its probes pass")
	}
	drain(l, machine, ticket, before.Annotations, after.Annotations)
	return l.events
}

func checksum(secret *corev1.Secret) string {
	return short(nodeplan.Checksum(secret.Data[nodeplan.KeyPlan]))
}

func delivery(l *list, before, after *corev1.Secret) {
	had, has := before.Data[nodeplan.KeyPlan], after.Data[nodeplan.KeyPlan]
	again := before.Annotations[rkev1.PlanUpdatedTimeAnnotation] != after.Annotations[rkev1.PlanUpdatedTimeAnnotation]
	if len(has) == 0 || bytes.Equal(had, has) && !again {
		return
	}
	cause := planner.CauseOf(after.Annotations[rkev1.PlanEvidenceAnnotation], nodeplan.Checksum(has))
	switch {
	case cause != "":
		l.normal(ReasonMachineRestarting, "Plan "+checksum(after)+" was delivered and restarts Kubernetes on the node",
			caused(cause))
	case len(had) == 0:
		l.normal(ReasonPlanDelivered, "The first plan "+checksum(after)+" was delivered")
	case bytes.Equal(had, has):
		l.normal(ReasonPlanDelivered, "Plan "+checksum(after)+" is retried")
	default:
		l.normal(ReasonPlanDelivered, "Plan "+checksum(after)+" was delivered and restarts nothing")
	}
}

// drain adds events on a drain before a restart. Cluster API reports drains before a removal.
func drain(l *list, machine *clusterv1.Machine, ticket *rkev1.DisruptionTicket, before, after map[string]string) {
	was, is := before[rkev1.DrainAnnotation], after[rkev1.DrainAnnotation]
	done := func(annotations map[string]string) bool {
		return annotations[rkev1.DrainDoneAnnotation] != "" &&
			annotations[rkev1.DrainDoneAnnotation] == annotations[rkev1.DrainAnnotation]
	}
	switch {
	case is != "" && is != was:
		l.normal(ReasonDrainStarted, "Its node is drained before a restart", ticketCause(ticket, machine))
	case is != "" && done(after) && !done(before):
		l.normal(ReasonDrainFinished, "Its node is drained")
	case is == "" && was != "" && before[rkev1.UncordonAnnotation] != "":
		l.normal(ReasonUncordoned, "Its node accepts pods again")
	}
	if problem := after[rkev1.DrainErrorAnnotation]; problem != "" && before[rkev1.DrainErrorAnnotation] == "" {
		l.warning(ReasonDrainFailed, redacted(problem))
	}
}

// ticketCause returns why a machine is about to be disrupted. It is empty if the ticket does not name the machine, or
// has an unknown cause.
func ticketCause(ticket *rkev1.DisruptionTicket, machine *clusterv1.Machine) string {
	if ticket == nil || !slices.ContainsFunc(ticket.Machines, func(t rkev1.TicketMachine) bool {
		return t.MachineUID == machine.UID
	}) {
		return ""
	}
	if cause := disruption.Cause(ticket.Cause); slices.Contains(disruption.Causes(), cause) {
		return caused(cause)
	}
	return ""
}
