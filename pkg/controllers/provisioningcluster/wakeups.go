package provisioningcluster

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// indexBySchema finds Clusters by the names of the DynamicSchemas of their pools.
const indexBySchema = "drover-by-dynamic-schema"

// indexByReference finds Clusters by the Secrets of other namespaces that they name, as NAMESPACE/NAME.
const indexByReference = "drover-by-reference"

// indexByPodSecurity finds Clusters by the names of their PodSecurityAdmissionConfigurationTemplates.
const indexByPodSecurity = "drover-by-pod-security-template"

// index adds the indexes of Clusters. Controller cluster uses the one by management cluster, too.
func (h *handler) index() {
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	h.clusters.AddIndexer(provv1.IndexByCloudCredential, func(c *provv1.Cluster) ([]string, error) {
		if name := c.Spec.CloudCredentialSecretName; name != "" {
			return []string{name}, nil
		}
		return nil, nil
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
	h.clusters.AddIndexer(indexByPodSecurity, func(c *provv1.Cluster) ([]string, error) {
		if name := topology.PodSecurityTemplate(c); name != "" {
			return []string{name}, nil
		}
		return nil, nil
	})
	h.clusters.AddIndexer(indexBySnapshot, bySnapshot)
	h.clusters.AddIndexer(indexBySchema, func(c *provv1.Cluster) ([]string, error) {
		var names []string
		for _, ref := range topology.ConfigRefs(c) {
			names = append(names, ref.SchemaName())
		}
		return names, nil
	})
}

// wake registers a wake-up for every fact that a cluster can wait for.
func (h *handler) wake(ctx context.Context) error {
	byConfig := wakeup.ByIndex[*unstructured.Unstructured](h.clusters, provv1.IndexByNodeInfra, infraKey)
	h.DynamicKinds.OnInformer(func(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
		if gvk.GroupVersion().String() == topology.MachineConfigVersion {
			// It fails only for a stopped informer, whose kind no longer exists.
			_ = wakeup.OnInformer(ctx, h.Clusters, byConfig, informer)
		}
	})
	byManagement := wakeup.ByIndex[*mgmtv3.Cluster](h.clusters, provv1.IndexByCluster, (*mgmtv3.Cluster).GetName)
	bySchema := wakeup.ByIndex[*mgmtv3.DynamicSchema](h.clusters, indexBySchema, (*mgmtv3.DynamicSchema).GetName)
	byTemplate := wakeup.ByIndex[*mgmtv3.PodSecurityAdmissionConfigurationTemplate](h.clusters, indexByPodSecurity,
		(*mgmtv3.PodSecurityAdmissionConfigurationTemplate).GetName)
	return errors.Join(
		wakeup.On(ctx, h.Clusters, byTemplate, h.PodSecurityTemplates),
		wakeup.On(ctx, h.Clusters, byManagement, h.ManagementClusters),
		wakeup.On(ctx, h.Clusters, ofControlPlane, h.ControlPlanes),
		wakeup.On(ctx, h.Clusters, wakeup.BySameName[*clusterv1.Cluster](), h.CAPIClusters),
		wakeup.On(ctx, h.Clusters, h.ofMachine, h.Machines),
		wakeup.On(ctx, h.Clusters, h.ofMachineDeployment, h.MachineDeployments),
		wakeup.On(ctx, h.Clusters, bySchema, h.DynamicSchemas),
		wakeup.On(ctx, h.Clusters, h.ofSnapshot, h.Snapshots),
		h.wakeByProvider(ctx),
		wakeup.On(ctx, h.Clusters, h.ofSecret, h.Secrets),
	)
}

func infraKey(config *unstructured.Unstructured) string {
	ref := topology.ConfigRef{APIVersion: config.GetAPIVersion(), Kind: config.GetKind(), Name: config.GetName()}
	return ref.IndexKey(config.GetNamespace())
}

func ofControlPlane(cp *rkev1.RKEControlPlane) []wakeup.Key {
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

// ofSecret wakes the cluster of a Secret with a Pod Security configuration, and those of ofCredential.
func (h *handler) ofSecret(secret *corev1.Secret) []wakeup.Key {
	if cluster, ok := strings.CutSuffix(secret.Name, naming.PodSecurity("")); ok {
		return []wakeup.Key{{Namespace: secret.Namespace, Name: cluster}}
	}
	return h.ofCredential(secret)
}

// ofCredential wakes the clusters that name a Secret as their credential. It wakes the clusters of other namespaces
// that name the Secret at all, because the Secret may grant them access.
func (h *handler) ofCredential(secret *corev1.Secret) []wakeup.Key {
	reference := secret.Name
	global := secret.Namespace == provv1.GlobalDataNamespace
	if global {
		reference = provv1.GlobalDataNamespace + ":" + secret.Name
	}
	keys := wakeup.Found(h.clusters, indexByReference, secret.Namespace+"/"+secret.Name)
	for _, index := range []string{provv1.IndexByCloudCredential, provv1.IndexByMachinePoolCloudCredential} {
		for _, key := range wakeup.Found(h.clusters, index, reference) {
			if global || key.Namespace == secret.Namespace {
				keys = append(keys, key)
			}
		}
	}
	return keys
}
