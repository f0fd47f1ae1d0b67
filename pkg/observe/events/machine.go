package events

import (
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// MachineCreated returns the events of a new Machine.
func MachineCreated(machine *clusterv1.Machine) []Event {
	l := about(machineKind, machine)
	text := "Machine of cluster " + machine.Spec.ClusterName
	if pool := machine.Labels[clusterv1.MachineDeploymentNameLabel]; pool != "" {
		text += ", created by MachineDeployment " + pool
	}
	l.normal(ReasonMachineCreated, text)
	return l.events
}

// MachineRemoved returns the events of a removed Machine about its Cluster. A Machine that is removed with its Cluster
// causes none.
func MachineRemoved(cluster *provv1.Cluster, machine *clusterv1.Machine) []Event {
	if !cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	l := about(clusterKind, cluster)
	l.normal(ReasonMachineRemoved, "Machine "+machine.Name+" was removed")
	return l.events
}

// MachineChanged returns the events of a change of a Machine.
func MachineChanged(cluster *provv1.Cluster, before, after *clusterv1.Machine) []Event {
	l := about(machineKind, after)
	if !after.DeletionTimestamp.IsZero() {
		if before.DeletionTimestamp.IsZero() {
			removal(l, cluster, after)
		}
		return l.events // Cluster API reports the removal itself
	}
	condition := func(kind string) transition {
		return transition{metaCondition(before.Status.Conditions, kind), metaCondition(after.Status.Conditions, kind)}
	}
	host(l, condition)
	planFailure(l, condition)
	if !before.Status.NodeRef.IsDefined() && after.Status.NodeRef.IsDefined() {
		l.normal(ReasonNodeRegistered, "Its node is "+after.Status.NodeRef.Name)
	}
	if healthy := condition(clusterv1.MachineNodeHealthyCondition); healthy.left() {
		l.warning(ReasonNodeUnhealthy, healthy.is.why())
	}
	if checked := condition(clusterv1.MachineHealthCheckSucceededCondition); checked.became(rkev1.ConditionFalse) {
		l.warning(ReasonHealthCheckFailed, checked.is.why())
	}
	if ready := condition(clusterv1.MachineReadyCondition); ready.became(rkev1.ConditionTrue) {
		l.normal(ReasonMachineReady, "The machine is ready")
	}
	return l.events
}

// host adds events on the two halves of a machine, as Cluster API repeats their state.
func host(l *list, condition func(string) transition) {
	data := condition(clusterv1.MachineBootstrapConfigReadyCondition)
	if data.became(rkev1.ConditionFalse) && (data.is.reason == bootstrapdata.ReasonBadInput ||
		data.is.reason == rkev1.ReasonError) {
		l.warning(ReasonBootstrapDataFailed, data.is.why())
	}
	switch made := condition(clusterv1.MachineInfrastructureReadyCondition); {
	case made.became(rkev1.ConditionTrue):
		l.normal(ReasonInfrastructureReady, "Its host was created")
	case made.became(rkev1.ConditionFalse) && isHostFailure(made.is.reason):
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

// removal adds an event with the cause of a machine's removal.
func removal(l *list, cluster *provv1.Cluster, machine *clusterv1.Machine) {
	checked := metaCondition(machine.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
	made := metaCondition(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	current := metaCondition(machine.Status.Conditions, clusterv1.MachineUpToDateCondition)
	_, chosen := machine.Annotations[clusterv1.DeleteMachineAnnotation]
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		l.normal(ReasonMachineDeleting, "The cluster is being removed")
	case made.status == rkev1.ConditionFalse && made.reason == rkev1.ReasonCreateError:
		l.warning(ReasonMachineReplaced, replaced, caused(disruption.HealthMachineFailed))
	case checked.status == rkev1.ConditionFalse:
		l.warning(ReasonMachineReplaced, replaced, caused(disruption.HealthCheckFailed), checked.why())
	case current.status == rkev1.ConditionFalse && current.reason == clusterv1.MachineNotUpToDateReason:
		l.normal(ReasonMachineReplaced, replaced, caused(disruption.EditPool))
	case chosen:
		l.normal(ReasonMachineDeleting, "The machine was selected for deletion by "+
			"annotation "+clusterv1.DeleteMachineAnnotation)
	default:
		l.normal(ReasonMachineDeleting, "Its pool was scaled down, or a user deleted the machine")
	}
}

// replaced begins the message about a machine that another one replaces.
const replaced = "Another machine replaces it"

func caused(cause disruption.Cause) string { return fmt.Sprintf("cause %s", cause) }

// short returns the beginning of a checksum, which is enough for users to distinguish plans.
func short(checksum string) string { return strings.TrimSpace(checksum[:min(len(checksum), 12)]) }
