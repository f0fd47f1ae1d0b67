package rkecluster

import (
	"fmt"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// report marks the RKECluster as provisioned, so that Cluster API makes machines. It clears conditions of earlier
// versions, because Cluster API would copy them.
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
	h.written.Wrote(cluster, updated, time.Now())
	return updated, nil
}
