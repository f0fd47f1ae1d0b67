package rkecluster

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/topology"
)

// mayAct reports whether the object is ready for us: Cluster API owns it, it is
// not paused, nobody else fulfils the contract, and its provisioning Cluster is
// ours. The mark on that one is older than any RKECluster of ours.
func (h *handler) mayAct(cluster *rkev1.RKECluster) (bool, error) {
	if has(cluster.Annotations, clusterv1.ManagedByAnnotation) || has(cluster.Annotations, clusterv1.PausedAnnotation) {
		return false, nil
	}
	owner := capiOwner(cluster.OwnerReferences)
	if owner == "" {
		return false, nil
	}
	capiCluster, err := h.capiClusters.Get(cluster.Namespace, owner)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read Cluster API cluster %s/%s: %w", cluster.Namespace, owner, err)
	}
	if capiCluster.Spec.Paused != nil && *capiCluster.Spec.Paused {
		return false, nil
	}
	provisioning, err := h.clusters.Get(cluster.Namespace, owner)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read cluster %s/%s: %w", cluster.Namespace, owner, err)
	}
	return topology.Owner(provisioning, h.InstanceID, true) == topology.Ours, nil
}

// capiOwner is the name of the Cluster API cluster that owns an object: its
// controller, or else any, since Cluster API does not always set the flag.
func capiOwner(references []metav1.OwnerReference) string {
	found := ""
	for _, reference := range references {
		group := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).Group
		if group != clusterv1.GroupVersion.Group || reference.Kind != "Cluster" {
			continue
		}
		if reference.Controller != nil && *reference.Controller {
			return reference.Name
		}
		if found == "" {
			found = reference.Name
		}
	}
	return found
}

func has(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}
