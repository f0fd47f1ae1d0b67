package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	jsonpatch "github.com/evanphx/json-patch"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/proxy"
	"github.com/drover-io/drover/pkg/topology"
)

// connect stores the captured kubeconfig, and marks the management cluster as
// connected when the API server has answered with it.
func (h *handler) connect(seen *facts) error {
	if err := h.storeKubeconfig(seen); err != nil {
		return err
	}
	if seen.management == nil {
		return nil // its event brings us back
	}
	answered := seen.connected()
	if !answered && seen.kubeconfig != nil {
		answered = h.Prober.Answered(nameOf(seen.cluster))
	}
	return h.writeManagement(seen, seen.managementStatus(answered))
}

func (h *handler) storeKubeconfig(seen *facts) error {
	wanted := chooseKubeconfig(seen)
	if wanted == nil {
		return nil
	}
	desired := proxy.Secret(seen.cluster.Namespace, seen.cluster.Name, topology.OwnerReference(seen.cluster, false), wanted)
	if seen.kubeconfig == nil {
		created, err := h.Secrets.Create(desired)
		if err != nil {
			return fmt.Errorf("create kubeconfig of %s/%s: %w", seen.cluster.Namespace, seen.cluster.Name, err)
		}
		seen.kubeconfig = created
		return nil
	}
	updated := seen.kubeconfig.DeepCopy()
	updated.Data = map[string][]byte{proxy.KubeconfigKey: wanted}
	if updated.Labels == nil {
		updated.Labels = map[string]string{}
	}
	maps.Copy(updated.Labels, desired.Labels)
	if !slices.ContainsFunc(updated.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == seen.cluster.UID }) {
		updated.OwnerReferences = append(updated.OwnerReferences, desired.OwnerReferences...)
	}
	if equality.Semantic.DeepEqual(seen.kubeconfig, updated) {
		return nil
	}
	stored, err := h.Secrets.Update(updated)
	if err != nil {
		return fmt.Errorf("update kubeconfig of %s/%s: %w", seen.cluster.Namespace, seen.cluster.Name, err)
	}
	seen.kubeconfig = stored
	return nil
}

// chooseKubeconfig returns the kubeconfig that is wanted, nil when no server
// printed one. What there is now is kept while a server still stands for it, so
// that a second server or a second address changes nothing.
func chooseKubeconfig(seen *facts) []byte {
	var current, first []byte
	if seen.kubeconfig != nil {
		current = seen.kubeconfig.Data[proxy.KubeconfigKey]
	}
	for _, captured := range seen.captured {
		for _, address := range captured.addresses {
			kubeconfig, err := captured.access.Kubeconfig(address)
			switch {
			case err != nil:
			case bytes.Equal(kubeconfig, current):
				return current
			case first == nil:
				first = kubeconfig
			}
		}
	}
	return first
}

// writeManagement patches the management cluster's status, which has fields that
// are unknown here, under the version that was read.
func (h *handler) writeManagement(seen *facts, status mgmtv3.ClusterStatus) error {
	if equality.Semantic.DeepEqual(seen.management.Status, status) {
		return nil
	}
	patch, err := statusPatch(seen.management, status)
	if err != nil {
		return fmt.Errorf("encode status of management cluster %s: %w", seen.management.Name, err)
	}
	patched, err := h.ManagementClusters.Patch(seen.management.Name, types.MergePatchType, patch, "status")
	if err != nil {
		return fmt.Errorf("write status of management cluster %s: %w", seen.management.Name, err)
	}
	seen.management = patched
	return nil
}

// statusPatch is what changes the one status into the other: what is false or
// empty from now on has to be said, and what is unknown here must not be.
func statusPatch(management *mgmtv3.Cluster, status mgmtv3.ClusterStatus) ([]byte, error) {
	before, err := json.Marshal(management.Status)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	changes, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": management.ResourceVersion},
		"status":   json.RawMessage(changes),
	})
}

// remove takes the management side away, after everything else: the machines
// that are being removed still need it.
func (h *handler) remove(cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if !slices.Contains(cluster.Finalizers, provv1.ProvisioningClusterFinalizer) ||
		slices.Contains(cluster.Finalizers, provv1.RKEClusterFinalizer) {
		return cluster, nil // controller provisioningcluster removes its finalizer, which is an event of this cluster
	}
	h.Prober.Forget(nameOf(cluster))
	if err := h.Apply.PurgeLive(h.ctx, handlerName, clusterKind, cluster.Namespace, cluster.Name, setKinds()); err != nil {
		return cluster, err
	}
	patch, err := topology.ReleasePatch(cluster, provv1.ProvisioningClusterFinalizer)
	if err != nil {
		return cluster, err
	}
	updated, err := h.Clusters.Patch(cluster.Namespace, cluster.Name, types.MergePatchType, patch)
	if apierrors.IsNotFound(err) {
		return cluster, nil
	}
	if err != nil {
		return cluster, fmt.Errorf("release cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return updated, nil
}

func nameOf(cluster *provv1.Cluster) types.NamespacedName {
	return types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
}
