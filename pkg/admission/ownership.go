package admission

import (
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Ours reports whether the Cluster belongs to the Drover with that identifier, or is about to, and is not being
// deleted. Only such a Cluster is checked. before is nil for a new one.
func Ours(instanceID string, before, after *provv1.Cluster) bool {
	if after.DeletionTimestamp != nil {
		return false
	}
	switch mark := after.Annotations[rkev1.InstanceAnnotation]; {
	case mark != "":
		return mark == instanceID
	case before == nil:
		return true
	default:
		// A Cluster without a mark is unclaimed. One with a finalizer but no mark belongs to another manager.
		return before.Annotations[rkev1.InstanceAnnotation] == instanceID || len(before.Finalizers) == 0
	}
}
