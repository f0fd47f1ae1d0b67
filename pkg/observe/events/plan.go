package events

import (
	"bytes"
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/hostremoval"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// PlanChanged returns the events of a change of a plan Secret: steps about the Cluster, the others about the Machine.
// From the Secret's data they contain only the checksum of the plan. A ticket that names the machine gives the cause of
// a drain; nil gives none.
func PlanChanged(cluster *provv1.Cluster, machine *clusterv1.Machine, ticket *rkev1.DisruptionTicket,
	before, after *corev1.Secret) []Event {
	if after.Type != rkev1.SecretTypeMachinePlan {
		return nil
	}
	l, whole := about(machineKind, machine), about(clusterKind, cluster)
	delivery(l, whole, machine.Name, before, after)
	if after.Annotations[rkev1.PlanProbesPassedAnnotation] != "" &&
		before.Annotations[rkev1.PlanProbesPassedAnnotation] == "" {
		whole.step(ReasonPlanApplied, machine.Name, "Machine %s has applied its plan, and all probes pass",
			"%d machines have applied their plans, and all probes pass")
	}
	drain(l, machine, ticket, before.Annotations, after.Annotations)
	return slices.Concat(l.events, whole.events)
}

func checksum(secret *corev1.Secret) string {
	return short(nodeplan.Checksum(secret.Data[nodeplan.KeyPlan]))
}

// delivery adds an event for a plan that restarts Kubernetes or is retried, and a step for one that restarts nothing.
// The first plan of a machine causes none: PlanApplied or PlanFailed follows.
func delivery(l, whole *list, machine string, before, after *corev1.Secret) {
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
	case len(had) == 0, isLast(has): // the CustomMachine reports the end of a host
	case bytes.Equal(had, has):
		l.normal(ReasonPlanDelivered, "Plan "+checksum(after)+" is retried")
	default:
		whole.step(ReasonPlanDelivered, machine, "Machine %s gets a plan that restarts nothing",
			"%d machines get plans that restart nothing")
	}
}

// isLast reports whether a plan is the last one of a registered host.
func isLast(raw []byte) bool {
	decoded, err := nodeplan.Decode(raw)
	return err == nil && hostremoval.IsLast(decoded)
}

// drain adds events on a drain before a restart. Cluster API reports drains before a removal.
func drain(l *list, machine *clusterv1.Machine, ticket *rkev1.DisruptionTicket, before, after map[string]string) {
	was, is := before[rkev1.DrainAnnotation], after[rkev1.DrainAnnotation]
	ends := isDrained(after) && !isDrained(before)
	switch {
	case is != "" && is != was:
		l.normal(ReasonDrainStarted, "Its node is drained before a restart", ticketCause(ticket, machine))
	case ends && after[rkev1.DrainErrorAnnotation] != "":
		l.warning(ReasonDrainFailed, "The drain ends with an error, which its options ignore",
			redacted(after[rkev1.DrainErrorAnnotation]))
		return
	case ends:
		l.normal(ReasonDrainFinished, "Its node is drained")
	case is == "" && was != "" && before[rkev1.UncordonAnnotation] != "":
		l.normal(ReasonUncordoned, "Its node accepts pods again")
	}
	if problem := after[rkev1.DrainErrorAnnotation]; problem != "" && before[rkev1.DrainErrorAnnotation] == "" {
		l.warning(ReasonDrainFailed, redacted(problem))
	}
}

// isDrained reports whether the drain that the annotations ask for is done.
func isDrained(annotations map[string]string) bool {
	return annotations[rkev1.DrainAnnotation] != "" &&
		annotations[rkev1.DrainDoneAnnotation] == annotations[rkev1.DrainAnnotation]
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
