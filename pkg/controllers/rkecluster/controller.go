package rkecluster

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// handlerName is persisted by hosts in metrics, do not change.
const handlerName = "rke-cluster"

// Deps are what the controller works with.
type Deps struct {
	RKEClusters  rkecontrollers.RKEClusterController
	CAPIClusters capicontrollers.ClusterController
	Clusters     provcontrollers.ClusterController
	// InstanceID is on Clusters that this Drover manages. RKEClusters without one
	// are served too.
	InstanceID string
}

type handler struct {
	Deps
	capiClusters capicontrollers.ClusterCache
	clusters     provcontrollers.ClusterCache
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
	return &handler{Deps: d, capiClusters: d.CAPIClusters.Cache(), clusters: d.Clusters.Cache()}
}

// Rehearse runs the handler once for an object. With Deps on a stage (see package rehearsal), that tells what it would write.
func Rehearse(d Deps, cluster *rkev1.RKECluster) error {
	_, err := newHandler(d).onChange("", cluster)
	return err
}

func (h *handler) onChange(_ string, cluster *rkev1.RKECluster) (*rkev1.RKECluster, error) {
	if cluster == nil || !cluster.DeletionTimestamp.IsZero() {
		return cluster, nil
	}
	act, err := h.mayAct(cluster)
	if err != nil || !act {
		return cluster, err // an event of the RKECluster, its Cluster API cluster or its provisioning Cluster brings us back
	}
	cluster, err = h.setEndpoint(cluster)
	if err != nil {
		return cluster, err
	}
	return h.report(cluster)
}
