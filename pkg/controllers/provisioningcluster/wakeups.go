package provisioningcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// indexBySchema finds Clusters by the names of the DynamicSchemas of their pools.
const indexBySchema = "drover-by-dynamic-schema"

// indexByReference finds Clusters by the Secrets of other namespaces that they name, as NAMESPACE/NAME.
const indexByReference = "drover-by-reference"

// index adds the indexes of Clusters. Controller cluster uses the one by management cluster, too.
func (h *handler) index() {
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	h.clusters.AddIndexer(provv1.IndexByCloudCredential, func(c *provv1.Cluster) ([]string, error) {
		return nonEmpty(c.Spec.CloudCredentialSecretName), nil
	})
	h.clusters.AddIndexer(provv1.IndexByMachinePoolCloudCredential, func(c *provv1.Cluster) ([]string, error) {
		return topology.Credentials(c), nil
	})
	h.clusters.AddIndexer(indexByReference, func(c *provv1.Cluster) ([]string, error) {
		var keys []string
		for _, ref := range tenancy.References(c) {
			keys = append(keys, ref.String())
		}
		return keys, nil
	})
	h.clusters.AddIndexer(provv1.IndexByNodeInfra, func(c *provv1.Cluster) ([]string, error) {
		return topology.InfraKeys(c), nil
	})
	h.clusters.AddIndexer(indexBySchema, func(c *provv1.Cluster) ([]string, error) {
		var names []string
		for _, ref := range topology.ConfigRefs(c) {
			names = append(names, ref.SchemaName())
		}
		return names, nil
	})
}

func nonEmpty(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// wake registers a wake-up for every fact that a cluster can wait for.
func (h *handler) wake(ctx context.Context) error {
	target := h.Clusters
	byManagement := wakeup.ByIndex[*mgmtv3.Cluster](h.clusters, provv1.IndexByCluster, (*mgmtv3.Cluster).GetName)
	if err := wakeup.On(ctx, target, byManagement, h.ManagementClusters); err != nil {
		return fmt.Errorf("watch management clusters: %w", err)
	}
	if err := wakeup.On(ctx, target, h.ofControlPlane, h.ControlPlanes); err != nil {
		return fmt.Errorf("watch control planes: %w", err)
	}
	if err := wakeup.On(ctx, target, wakeup.BySameName[*clusterv1.Cluster](), h.CAPIClusters); err != nil {
		return fmt.Errorf("watch Cluster API clusters: %w", err)
	}
	if err := wakeup.On(ctx, target, h.ofMachine, h.Machines); err != nil {
		return fmt.Errorf("watch machines: %w", err)
	}
	if err := wakeup.On(ctx, target, h.ofMachineDeployment, h.MachineDeployments); err != nil {
		return fmt.Errorf("watch machine deployments: %w", err)
	}
	bySchema := wakeup.ByIndex[*mgmtv3.DynamicSchema](h.clusters, indexBySchema, (*mgmtv3.DynamicSchema).GetName)
	if err := wakeup.On(ctx, target, bySchema, h.DynamicSchemas); err != nil {
		return fmt.Errorf("watch dynamic schemas: %w", err)
	}
	if err := wakeup.On(ctx, target, h.ofCredential, h.Secrets); err != nil {
		return fmt.Errorf("watch credentials: %w", err)
	}
	byConfig := wakeup.ByIndex[*unstructured.Unstructured](h.clusters, provv1.IndexByNodeInfra, infraKey)
	h.DynamicKinds.OnInformer(func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
		if gvk.GroupVersion().String() == topology.MachineConfigVersion {
			// It fails only for a stopped informer, whose kind no longer exists.
			_ = wakeup.OnInformer(ctx, target, byConfig, informer)
		}
	})
	return nil
}

func infraKey(config *unstructured.Unstructured) string {
	ref := topology.ConfigRef{APIVersion: config.GetAPIVersion(), Kind: config.GetKind(), Name: config.GetName()}
	return ref.IndexKey(config.GetNamespace())
}

func (h *handler) ofControlPlane(cp *rkev1.RKEControlPlane) []wakeup.Key {
	return []wakeup.Key{{Namespace: cp.Namespace, Name: cp.Spec.ClusterName}}
}

// ofMachine wakes only clusters that wait for the deletion of machines, or that depend on machines without a pool.
func (h *handler) ofMachine(m *clusterv1.Machine) []wakeup.Key {
	if m.DeletionTimestamp.IsZero() && !h.awaits(m) {
		return nil
	}
	return []wakeup.Key{{Namespace: m.Namespace, Name: m.Spec.ClusterName}}
}

func (h *handler) awaits(m *clusterv1.Machine) bool {
	if !registered(m) {
		return false
	}
	cluster, err := h.clusters.Get(m.Namespace, m.Spec.ClusterName)
	return err == nil && topology.CountsRegistered(cluster)
}

// ofMachineDeployment wakes clusters whose pool was deleted, or is scaled by another program while the cluster depends
// on it. It also wakes clusters whose pool gets other roles once its machines are gone.
func (h *handler) ofMachineDeployment(md *clusterv1.MachineDeployment) []wakeup.Key {
	_, scaled := md.Annotations[clusterv1.AutoscalerMinSizeAnnotation]
	if md.DeletionTimestamp.IsZero() && !scaled {
		cluster, err := h.clusters.Get(md.Namespace, md.Spec.ClusterName)
		if err != nil || !topology.LimitsFollow(cluster, md.Name) && !topology.ChangesRoles(cluster, md) {
			return nil
		}
	}
	return []wakeup.Key{{Namespace: md.Namespace, Name: md.Spec.ClusterName}}
}

// ofCredential wakes the clusters that name a Secret as their credential.
func (h *handler) ofCredential(secret *corev1.Secret) []wakeup.Key {
	reference := secret.Name
	global := secret.Namespace == provv1.GlobalDataNamespace
	if global {
		reference = provv1.GlobalDataNamespace + ":" + secret.Name
	}
	keys := h.ofReferred(secret)
	for _, index := range []string{provv1.IndexByCloudCredential, provv1.IndexByMachinePoolCloudCredential} {
		found, err := h.clusters.GetByIndex(index, reference)
		if err != nil {
			continue
		}
		for _, cluster := range found {
			if global || cluster.Namespace == secret.Namespace {
				keys = append(keys, wakeup.Key{Namespace: cluster.Namespace, Name: cluster.Name})
			}
		}
	}
	return keys
}

// ofReferred wakes the clusters of other namespaces that name a Secret, because the Secret may grant them access.
func (h *handler) ofReferred(secret *corev1.Secret) []wakeup.Key {
	found, err := h.clusters.GetByIndex(indexByReference, secret.Namespace+"/"+secret.Name)
	if err != nil {
		return nil // the index is registered above
	}
	var keys []wakeup.Key
	for _, cluster := range found {
		keys = append(keys, wakeup.Key{Namespace: cluster.Namespace, Name: cluster.Name})
	}
	return keys
}
