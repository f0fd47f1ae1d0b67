package rkecluster

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// mayAct reports whether the object is ready for us: Cluster API owns it, it is
// not paused, nobody else fulfils the contract, and it is ours to serve.
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
	return h.ours(cluster, owner)
}

// ours reports whether we serve an object: its provisioning Cluster is marked as
// ours, or there is none and the object was not made for one. Cluster API's
// contract asks for nothing more than the object itself. (docs/wire/capi.md#infrastructure-cluster.)
//
// An object that was made for a provisioning Cluster which the cache does not
// show waits for it: the caches are filled independently of each other, and it
// may be another manager's. The mark on ours is older than any RKECluster.
func (h *handler) ours(cluster *rkev1.RKECluster, owner string) (bool, error) {
	provisioning, err := h.clusters.Get(cluster.Namespace, owner)
	if apierrors.IsNotFound(err) {
		return cluster.Annotations[madeForAnnotation] != provisioningCluster(), nil
	}
	if err != nil {
		return false, fmt.Errorf("read cluster %s/%s: %w", cluster.Namespace, owner, err)
	}
	return topology.Owner(provisioning, h.InstanceID, true) == topology.Ours, nil
}

// madeForAnnotation is the kind of the object that an object of an apply set was
// made for; every manager of provisioning Clusters writes it. (docs/wire/names.md#apply-sets.)
const madeForAnnotation = "objectset.rio.cattle.io/owner-gvk"

func provisioningCluster() string { return provv1.SchemeGroupVersion.WithKind("Cluster").String() }

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
