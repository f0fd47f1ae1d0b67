package events

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// InfrastructureChanged returns the events of a change of a <Driver>Machine: steps about its Cluster, the others about
// the <Driver>Machine.
func InfrastructureChanged(cluster *provv1.Cluster, before, after *unstructured.Unstructured) []Event {
	l, whole := about(after.GroupVersionKind(), after), about(clusterKind, cluster)
	condition := func(kind string) transition {
		return transition{untypedCondition(before, kind), untypedCondition(after, kind)}
	}
	ready := condition(rkev1.ConditionReady)
	switch created := condition(rkev1.ConditionCreateJob); {
	case created.became(rkev1.ConditionUnknown) && waited(ready.was):
		l.normal(ReasonHostCreating, "The wait is over, and a Job creates the host")
	case created.became(rkev1.ConditionTrue):
		whole.step(ReasonHostCreated, after.GetName(), "The host of machine %s was created",
			"The hosts of %d machines were created")
	case created.became(rkev1.ConditionFalse):
		l.warning(ReasonHostCreateFailed, machinejob.ShownIn(created.is.message, problem(after)))
	}
	switch deleted := condition(rkev1.ConditionDeleteJob); {
	case deleted.became(rkev1.ConditionUnknown):
		whole.step(ReasonHostDeleting, after.GetName(), "A Job removes the host of machine %s",
			"Jobs remove the hosts of %d machines")
	case deleted.became(rkev1.ConditionFalse):
		l.warning(ReasonHostDeleteFailed, deleted.is.reason, redacted(problem(after)))
	}
	if ready.became(rkev1.ConditionFalse) && machinejob.Blocked(ready.is.reason) {
		l.warning(ReasonHostBlocked, ready.is.why())
	}
	return slices.Concat(l.events, whole.events)
}

// waited reports whether a machine had to wait for its Job. Only then is the Job itself news, because each machine has
// one.
func waited(ready conditionState) bool {
	return machinejob.Blocked(ready.reason) || ready.reason == machinejob.ReasonBackOff
}

// hasJobs reports whether Jobs create and remove the host of a machine.
func hasJobs(machine *clusterv1.Machine) bool {
	return machine.Spec.InfrastructureRef.APIGroup == driverschema.MachineGroup
}

// problem returns the failure message of a Job, which may be output of a driver.
func problem(machine *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(machine.Object, "status", "failureMessage")
	return text
}

// isHostFailure reports whether a host is missing for a reason that needs a user's attention.
func isHostFailure(reason string) bool {
	switch reason {
	case rkev1.ReasonCreateError, rkev1.ReasonDeleteError, machinejob.ReasonUnconfirmed:
		return true
	}
	return machinejob.Blocked(reason)
}

// untypedCondition reads a condition of an object without a Go type.
func untypedCondition(object *unstructured.Unstructured, kind string) conditionState {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["type"] != kind {
			continue
		}
		status, _ := c["status"].(string)
		reason, _ := c["reason"].(string)
		message, _ := c["message"].(string)
		return conditionState{status, reason, message}
	}
	return conditionState{}
}

// DriverChanged returns the events of a change of a NodeDriver.
func DriverChanged(before, after *mgmtv3.NodeDriver) []Event {
	l := about(driverKind, after)
	condition := func(kind string) transition {
		return transition{ownCondition(before.Status.Conditions, kind), ownCondition(after.Status.Conditions, kind)}
	}
	for _, kind := range []string{mgmtv3.NodeDriverConditionDownloaded, mgmtv3.NodeDriverConditionInstalled} {
		if failed := condition(kind); failed.became(rkev1.ConditionFalse) && failed.is.message != "" {
			l.warning(ReasonDriverFailed, failed.is.why())
			return l.events // both conditions report the same failure
		}
	}
	if condition(mgmtv3.NodeDriverConditionInstalled).became(rkev1.ConditionTrue) {
		l.normal(ReasonDriverInstalled, "The driver is installed")
	}
	return l.events
}
