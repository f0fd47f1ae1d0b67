package rkecluster

import (
	"context"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// Hosts persist handlerName in metrics, do not change.
const handlerName = "rke-cluster"

// Deps holds the controller's dependencies and settings.
type Deps struct {
	RKEClusters  rkecontrollers.RKEClusterController
	CAPIClusters capicontrollers.ClusterController
	Clusters     provcontrollers.ClusterController
	// InstanceID marks the Clusters of this instance. The controller also serves RKEClusters without a Cluster.
	InstanceID string
}

type handler struct {
	Deps
	capiClusters capicontrollers.ClusterCache
	clusters     provcontrollers.ClusterCache
	written      *ownwrites.Statuses
}

// Register adds the handler and its wake-ups. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	h := newHandler(d)
	d.RKEClusters.OnChange(ctx, handlerName, h.onChange)
	if err := wakeup.On(ctx, d.RKEClusters, wakeup.BySameName[*clusterv1.Cluster](), d.CAPIClusters); err != nil {
		return fmt.Errorf("watch Cluster API clusters: %w", err)
	}
	if err := wakeup.On(ctx, d.RKEClusters, wakeup.BySameName[*provv1.Cluster](), d.Clusters); err != nil {
		return fmt.Errorf("watch clusters: %w", err)
	}
	return nil
}

func newHandler(d Deps) *handler {
	return &handler{Deps: d, capiClusters: d.CAPIClusters.Cache(), clusters: d.Clusters.Cache(),
		written: ownwrites.NewStatuses()}
}

// Rehearse runs the handler once for an object. With Deps from a stage (package rehearsal), it only lists what it would
// write.
func Rehearse(d Deps, cluster *rkev1.RKECluster) error {
	_, err := newHandler(d).onChange("", cluster)
	return err
}

func (h *handler) onChange(_ string, cluster *rkev1.RKECluster) (*rkev1.RKECluster, error) {
	if cluster == nil || !cluster.DeletionTimestamp.IsZero() || h.written.Behind(cluster, time.Now()) {
		return cluster, nil
	}
	act, err := h.mayAct(cluster)
	if err != nil || !act {
		return cluster, err // an event of the RKECluster, its CAPI Cluster or its provisioning Cluster requeues it
	}
	cluster, err = h.setEndpoint(cluster)
	if err != nil {
		return cluster, err
	}
	return h.report(cluster)
}
