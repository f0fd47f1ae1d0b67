package rkecluster

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// mayAct reports whether the controller may act on the object. Cluster API must own it, it must not be paused or
// managed externally, and this instance must serve it.
func (h *handler) mayAct(cluster *rkev1.RKECluster) (bool, error) {
	if _, external := cluster.Annotations[clusterv1.ManagedByAnnotation]; external || topology.IsPaused(nil, cluster) {
		return false, nil
	}
	owner := topology.CAPIOwner(cluster.OwnerReferences, "Cluster")
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
	if topology.IsPaused(capiCluster) {
		return false, nil
	}
	return h.ours(cluster, owner)
}

// ours reports whether this instance serves an object. Its provisioning Cluster has this instance's mark, or it was
// made without a provisioning Cluster. Cluster API's contract needs only the object itself.
// (docs/wire/capi.md#infrastructure-cluster.)
//
// An object that was made for a provisioning Cluster waits until the cache shows that Cluster. Caches fill
// independently, and the Cluster may belong to another manager. Drover marks its Clusters before it makes their
// RKEClusters. Every manager writes the kind of the owner on objects of an apply set. (docs/wire/names.md#apply-sets.)
func (h *handler) ours(cluster *rkev1.RKECluster, owner string) (bool, error) {
	provisioning, err := h.clusters.Get(cluster.Namespace, owner)
	if apierrors.IsNotFound(err) {
		return cluster.Annotations[applyset.OwnerKindAnnotation] != provisioningCluster(), nil
	}
	if err != nil {
		return false, fmt.Errorf("read cluster %s/%s: %w", cluster.Namespace, owner, err)
	}
	return topology.IsOurs(provisioning, h.InstanceID), nil
}

func provisioningCluster() string { return provv1.SchemeGroupVersion.WithKind("Cluster").String() }
