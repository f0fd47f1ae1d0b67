package rkecluster

import (
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Placeholder of the endpoint. Cluster API copies it once and shows it; no client dials it.
// (docs/wire/capi.md#infrastructure-cluster.)
const (
	endpointHost = "localhost"
	endpointPort = 6443
)

func (h *handler) setEndpoint(cluster *rkev1.RKECluster) (*rkev1.RKECluster, error) {
	if endpoint := cluster.Spec.ControlPlaneEndpoint; endpoint != nil && endpoint.IsValid() {
		return cluster, nil
	}
	changed := cluster.DeepCopy()
	changed.Spec.ControlPlaneEndpoint = &clusterv1.APIEndpoint{Host: endpointHost, Port: endpointPort}
	updated, err := h.RKEClusters.Update(changed)
	if err != nil {
		return cluster, fmt.Errorf("set endpoint of RKECluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.written.Replaced(cluster, updated, time.Now())
	return updated, nil
}
