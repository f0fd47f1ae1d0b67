package rkecluster

import (
	"fmt"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// report tells Cluster API to go on to machines. Conditions that earlier
// versions left are cleared, since Cluster API would repeat them.
func (h *handler) report(cluster *rkev1.RKECluster) (*rkev1.RKECluster, error) {
	provisioned := cluster.Status.Initialization.Provisioned
	if provisioned != nil && *provisioned && len(cluster.Status.Conditions) == 0 {
		return cluster, nil
	}
	changed := cluster.DeepCopy()
	yes := true
	changed.Status.Initialization.Provisioned = &yes
	changed.Status.Conditions = nil
	updated, err := h.RKEClusters.UpdateStatus(changed)
	if err != nil {
		return cluster, fmt.Errorf("write status of RKECluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return updated, nil
}
