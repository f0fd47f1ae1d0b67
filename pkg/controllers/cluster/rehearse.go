package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// Rehearse runs the handler once for a cluster. With Deps on a stage (see package rehearsal), that tells what it would write.
func Rehearse(ctx context.Context, d Deps, cluster *provv1.Cluster) error {
	h := newHandler(ctx, d)
	h.began = time.Time{}             // an agent that is not there has had its time
	_, err := h.onChange("", cluster) //nolint:contextcheck // the handler has it
	return err
}

// RehearseSet says what keeping the management cluster of a cluster, and what comes with it, would change.
func RehearseSet(rehearsal applyset.Rehearsal, cluster *provv1.Cluster, registry topology.Registry) ([]applyset.Difference, error) {
	return rehearsal.Apply(handlerName, cluster, applyset.NoOwnerRef, setKinds(), topology.Management(cluster, registry))
}

// Objects are those that RehearseSet compares.
func Objects(cluster *provv1.Cluster, registry topology.Registry) []runtime.Object {
	return topology.Management(cluster, registry)
}
