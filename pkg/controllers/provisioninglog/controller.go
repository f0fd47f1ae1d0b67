package provisioninglog

import (
	"context"
	"fmt"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	corev1 "k8s.io/api/core/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// Hosts persist handlerName in metrics, do not change.
const handlerName = "provisioning-log"

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Clusters   provcontrollers.ClusterController
	ConfigMaps corecontrollers.ConfigMapController
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

type handler struct {
	Deps
	clusters   provcontrollers.ClusterCache
	configMaps corecontrollers.ConfigMapCache
	written    *ownwrites.Log
}

// Register adds the handler, its index and its wake-up. They end with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Now == nil {
		d.Now = time.Now
	}
	h := &handler{Deps: d, clusters: d.Clusters.Cache(), configMaps: d.ConfigMaps.Cache(), written: ownwrites.New()}
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	d.Clusters.OnChange(ctx, handlerName, h.onChange)
	if err := wakeup.On(ctx, d.Clusters, h.ofLog, d.ConfigMaps); err != nil {
		return fmt.Errorf("watch provisioning logs: %w", err)
	}
	return nil
}

// ofLog wakes the Cluster that a log is about.
func (h *handler) ofLog(log *corev1.ConfigMap) []wakeup.Key {
	if log.Name != provv1.ProvisioningLogName {
		return nil
	}
	return wakeup.Found(h.clusters, provv1.IndexByCluster, log.Namespace)
}

func (h *handler) onChange(_ string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if cluster == nil || cluster.DeletionTimestamp != nil || cluster.Spec.RKEConfig == nil ||
		!topology.IsOurs(cluster, h.InstanceID) {
		return cluster, nil
	}
	facts, ok, err := h.gather(cluster)
	if err != nil || !ok {
		return cluster, err
	}
	decision := Decide(facts)
	if decision.After > 0 {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, decision.After)
	}
	return cluster, h.act(facts, decision)
}
