package rkecontrolplane

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// mayAct reports whether the control plane's Cluster belongs to this instance. It also allows a deleted control plane
// whose Cluster no longer exists, which would otherwise wait forever. It asks the API server for that, because the
// cache may be behind.
func (h *handler) mayAct(controlPlane *rkev1.RKEControlPlane) (bool, error) {
	cluster, err := h.clusters.Get(controlPlane.Namespace, controlPlane.Spec.ClusterName)
	if apierrors.IsNotFound(err) && !controlPlane.DeletionTimestamp.IsZero() {
		cluster, err = h.Clusters.Get(controlPlane.Namespace, controlPlane.Spec.ClusterName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read cluster %s/%s: %w", controlPlane.Namespace, controlPlane.Spec.ClusterName, err)
	}
	return topology.IsOurs(cluster, h.InstanceID), nil
}

// gatherServers lists the machines with the control-plane role, sorted by name. Machines of old clusters have only
// Drover's own cluster label.
func (h *handler) gatherServers(controlPlane *rkev1.RKEControlPlane) ([]*clusterv1.Machine, error) {
	byName := map[string]*clusterv1.Machine{}
	for _, clusterLabel := range []string{clusterv1.ClusterNameLabel, rkev1.ClusterNameLabel} {
		found, err := h.machines.List(controlPlane.Namespace, labels.SelectorFromSet(labels.Set{
			clusterLabel: controlPlane.Name, rkev1.ControlPlaneRoleLabel: rkev1.RoleLabelValue,
		}))
		if err != nil {
			return nil, fmt.Errorf("list servers of %s/%s: %w", controlPlane.Namespace, controlPlane.Name, err)
		}
		for _, machine := range found {
			byName[machine.Name] = machine
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *clusterv1.Machine) int {
		return cmp.Compare(a.Name, b.Name)
	}), nil
}
