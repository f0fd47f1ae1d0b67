package events

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/hostremoval"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/registration"
)

// MachineChanged returns the events of a change of a Machine: steps about its Cluster, the others about the Machine.
func MachineChanged(cluster *provv1.Cluster, before, after *clusterv1.Machine) []Event {
	l, whole := about(machineKind, after), about(clusterKind, cluster)
	if !after.DeletionTimestamp.IsZero() {
		if before.DeletionTimestamp.IsZero() {
			removal(l, whole, cluster, after)
		}
		return slices.Concat(l.events, whole.events) // Cluster API reports the removal itself
	}
	condition := func(kind string) transition {
		return transition{metaCondition(before.Status.Conditions, kind), metaCondition(after.Status.Conditions, kind)}
	}
	host(l, condition)
	planFailure(l, condition)
	if healthy := condition(clusterv1.MachineNodeHealthyCondition); healthy.left() {
		l.warning(ReasonNodeUnhealthy, healthy.is.why())
	}
	if checked := condition(clusterv1.MachineHealthCheckSucceededCondition); checked.became(rkev1.ConditionFalse) {
		l.warning(ReasonHealthCheckFailed, checked.is.why())
	}
	whole.joining(condition, before, after)
	return slices.Concat(l.events, whole.events)
}

// host adds events on the two halves of a machine, as Cluster API repeats their state.
func host(l *list, condition func(string) transition) {
	data := condition(clusterv1.MachineBootstrapConfigReadyCondition)
	if data.became(rkev1.ConditionFalse) && (data.is.reason == bootstrapdata.ReasonBadInput ||
		data.is.reason == rkev1.ReasonError) {
		l.warning(ReasonBootstrapDataFailed, data.is.why())
	}
	made := condition(clusterv1.MachineInfrastructureReadyCondition)
	if made.became(rkev1.ConditionFalse) && isHostFailure(made.is.reason) {
		l.warning(ReasonInfrastructureFailed, made.is.reason, redacted(made.is.message))
	}
}

// planFailure adds an event for a failing plan. The planner reports it first, with the instruction. PlanApplied reports
// it when it is final, even if the planner does not run.
func planFailure(l *list, condition func(string) transition) {
	reconciled, applied := condition(rkev1.ConditionReconciled), condition(rkev1.ConditionPlanApplied)
	failed := func(s conditionState) bool {
		return s.status != rkev1.ConditionTrue && planner.IsPlanFailure(s.message)
	}
	switch {
	case failed(reconciled.is) && !failed(reconciled.was):
		l.warning(ReasonPlanFailed, reconciled.is.message)
	case applied.became(rkev1.ConditionFalse) && !failed(reconciled.is):
		l.warning(ReasonPlanFailed, applied.is.message)
	}
}

// removal adds an event with the cause of a machine's removal: to l if another machine replaces it, else a step to
// whole.
func removal(l, whole *list, cluster *provv1.Cluster, machine *clusterv1.Machine) {
	checked := metaCondition(machine.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	made := metaCondition(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	current := metaCondition(machine.Status.Conditions, clusterv1.MachineUpToDateCondition)
	_, chosen := machine.Annotations[clusterv1.DeleteMachineAnnotation]
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		whole.step(ReasonMachineDeleting, machine.Name, "Machine %s is removed with its cluster",
			"%d machines are removed with their cluster")
	case made.status == rkev1.ConditionFalse && made.reason == rkev1.ReasonCreateError:
		l.warning(ReasonMachineReplaced, replaced, caused(disruption.HealthMachineFailed))
	case checked.status == rkev1.ConditionFalse:
		l.warning(ReasonMachineReplaced, replaced, caused(disruption.HealthCheckFailed), checked.why())
	case current.status == rkev1.ConditionFalse && current.reason == clusterv1.MachineNotUpToDateReason:
		l.normal(ReasonMachineReplaced, replaced, caused(disruption.EditPool))
	case wasMissing(cluster, machine):
		whole.warning(ReasonHostMissing, "Machine "+machine.Name+" is removed, because its host was away for "+
			"longer than annotation "+rkev1.DeleteMissingCustomMachinesAfterAnnotation+" allows",
			caused(disruption.HealthHostMissing))
	case chosen:
		const selects = ", because annotation " + clusterv1.DeleteMachineAnnotation + " selects "
		whole.step(ReasonMachineDeleting, machine.Name, "Machine %s is removed"+selects+"it",
			"%d machines are removed"+selects+"them")
	default:
		whole.step(ReasonMachineDeleting, machine.Name,
			"Machine %s is removed, because its pool was scaled down or a user deleted it",
			"%d machines are removed, because their pool was scaled down or a user deleted them")
	}
}

// wasMissing reports whether a deleted machine is a registered host that was away for too long.
func wasMissing(cluster *provv1.Cluster, machine *clusterv1.Machine) bool {
	if !registration.IsHost(machine) {
		return false
	}
	ready := metaCondition(machine.Status.Conditions, clusterv1.MachineNodeReadyCondition)
	switch ready.reason {
	case clusterv1.MachineNodeReadyUnknownReason, clusterv1.MachineNodeDeletedReason,
		clusterv1.MachineNodeDoesNotExistReason:
	default:
		return false
	}
	since := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineNodeReadyCondition).LastTransitionTime.Time
	return hostremoval.WasMissing(cluster.Annotations, since, machine.DeletionTimestamp.Time)
}

// replaced begins the message about a machine that another one replaces.
const replaced = "Another machine replaces it"

func caused(cause disruption.Cause) string { return fmt.Sprintf("cause %s", cause) }

// short returns the beginning of a checksum, which is enough for users to distinguish plans.
func short(checksum string) string { return strings.TrimSpace(checksum[:min(len(checksum), 12)]) }
