package events

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

var (
	managementKind    = mgmtv3.SchemeGroupVersion.WithKind("Cluster")
	customMachineKind = rkev1.SchemeGroupVersion.WithKind("CustomMachine")
)

// ManagementChanged returns the events of a change of a management Cluster.
func ManagementChanged(before, after *mgmtv3.Cluster) []Event {
	return held(managementKind, before, after)
}

// CustomMachineChanged returns the events of a change of a CustomMachine: about its Cluster what happens to the host
// that leaves, because the Machine is about to be gone, and the others about the CustomMachine.
func CustomMachineChanged(cluster *provv1.Cluster, before, after *rkev1.CustomMachine) []Event {
	whole := about(clusterKind, cluster)
	cleaned := transition{ownCondition(before.Status.Conditions, rkev1.ConditionHostCleaned),
		ownCondition(after.Status.Conditions, rkev1.ConditionHostCleaned)}
	const host = "The host of machine "
	switch {
	case cleaned.became(rkev1.ConditionUnknown):
		whole.normal(ReasonHostCleaning, host+after.Name+" is cleaned", cleaned.is.message)
	case cleaned.became(rkev1.ConditionTrue):
		whole.normal(ReasonHostCleaned, host+after.Name+" is clean and can register again")
	case cleaned.became(rkev1.ConditionFalse):
		whole.warning(ReasonHostNotCleaned, host+after.Name+" is not clean", cleaned.is.message)
	}
	return slices.Concat(held(customMachineKind, before, after), whole.events)
}

// held returns an event when only finalizers of other programs still hold a deleted object.
func held(kind schema.GroupVersionKind, before, after metav1.Object) []Event {
	left := others(after)
	if len(left) == 0 || slices.Equal(others(before), left) {
		return nil
	}
	l := about(kind, after)
	var texts []string
	for _, finalizer := range left {
		remover, _ := topology.FinalizerRemover(finalizer)
		texts = append(texts, finalizer+" ("+remover+")")
	}
	l.warning(ReasonDeletionHeld, "The deletion waits for finalizers of other programs", strings.Join(texts, "; "))
	return l.events
}

// others returns the finalizers of a deleted object, if none of them belongs to a program that Drover knows.
func others(object metav1.Object) []string {
	if object.GetDeletionTimestamp() == nil || slices.ContainsFunc(object.GetFinalizers(), func(f string) bool {
		_, known := topology.FinalizerRemover(f)
		return known
	}) {
		return nil
	}
	return object.GetFinalizers()
}
