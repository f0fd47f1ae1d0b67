package cluster

import (
	"k8s.io/apimachinery/pkg/runtime"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/applyset"
	"github.com/drover-io/drover/pkg/topology"
)

// Rehearse says what keeping the management cluster of a cluster, and what comes with it, would change.
func Rehearse(rehearsal applyset.Rehearsal, cluster *provv1.Cluster, registry topology.Registry) ([]applyset.Difference, error) {
	return rehearsal.Apply(handlerName, cluster, applyset.NoOwnerRef, setKinds(), topology.Management(cluster, registry))
}

// Objects are those that Rehearse compares.
func Objects(cluster *provv1.Cluster, registry topology.Registry) []runtime.Object {
	return topology.Management(cluster, registry)
}
