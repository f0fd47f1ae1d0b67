package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// Rehearse runs the handler once for a cluster. With Deps from a stage (package rehearsal), it only lists what it would
// write.
func Rehearse(ctx context.Context, d Deps, cluster *provv1.Cluster) error {
	h := newHandler(ctx, d)
	h.began = time.Time{}             // the time for agents to reconnect counts as passed
	_, err := h.onChange("", cluster) //nolint:contextcheck // the handler has it
	return err
}

// RehearseSet returns what applying the management cluster and its related objects would change.
func RehearseSet(rehearsal applyset.Rehearsal, cluster *provv1.Cluster, registry topology.Registry) ([]applyset.Difference, error) {
	return rehearsal.Apply(handlerName, cluster, applyset.NoOwnerRef, setKinds(), topology.Management(cluster, registry))
}

// Objects returns the objects that RehearseSet compares.
func Objects(cluster *provv1.Cluster, registry topology.Registry) []runtime.Object {
	return topology.Management(cluster, registry)
}
