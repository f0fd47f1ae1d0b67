package summary

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// OfMachine summarizes a machine.
func OfMachine(machine *clusterv1.Machine) Summary {
	list := machine.Status.Conditions
	infrastructure := conditions.GetMeta(list, clusterv1.MachineInfrastructureReadyCondition)
	applied := conditions.GetMeta(list, rkev1.ConditionPlanApplied)
	healthy := conditions.GetMeta(list, clusterv1.MachineNodeHealthyCondition)
	hasNode, created := machine.Status.NodeRef.IsDefined(), machine.CreationTimestamp.Time
	switch {
	case !machine.DeletionTimestamp.IsZero():
		return ofMachine(Deleting, ReasonDeleting, machine.DeletionTimestamp.Time,
			"Waiting for the removal of the machine",
			conditions.GetMeta(list, clusterv1.MachineDeletingCondition))
	case infrastructure == nil, infrastructure.Status != metav1.ConditionTrue && !hasNode:
		if infrastructure != nil && IsFailure(infrastructure.Reason) {
			return ofMachine(Failed, infrastructure.Reason, infrastructure.LastTransitionTime.Time,
				"Cannot create the host", infrastructure)
		}
		return ofMachine(Creating, ReasonInfrastructure, created, "Waiting for the host", infrastructure,
			conditions.GetMeta(list, clusterv1.MachineBootstrapConfigReadyCondition))
	case applied != nil && applied.Status == metav1.ConditionFalse:
		return ofMachine(Failed, ReasonPlan, applied.LastTransitionTime.Time, "The plan of the machine failed", applied)
	case !hasNode:
		return ofMachine(Joining, ReasonNode, infrastructure.LastTransitionTime.Time,
			"Waiting for the node of the machine", conditions.GetMeta(list, rkev1.ConditionReconciled), applied)
	case healthy != nil && healthy.Status != metav1.ConditionTrue:
		return ofMachine(Unhealthy, ReasonUnhealthy, healthy.LastTransitionTime.Time, "The node is not healthy",
			healthy)
	}
	since := machine.Status.LastUpdated.Time
	if healthy != nil {
		since = healthy.LastTransitionTime.Time
	}
	return Summary{State: Running, Since: since, Changed: since}
}

// ofMachine returns the summary of a machine that needs time or attention. The first condition that says something
// explains it. A condition that is True explains only a deletion.
func ofMachine(state State, code string, since time.Time, otherwise string, explain ...*metav1.Condition) Summary {
	s := Summary{State: state, Code: code, Reason: code, Since: since, Changed: since}
	for _, c := range explain {
		if c != nil && c.Message != "" && (c.Status != metav1.ConditionTrue || state == Deleting) {
			s.Reason, s.Message = c.Reason, c.Message
			break
		}
	}
	s.Message = cmp.Or(s.Message, otherwise)
	return s
}
