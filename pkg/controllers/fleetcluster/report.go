package fleetcluster

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// report writes the condition, in one write and only if it changed. It first appears with a problem.
func (h *handler) report(facts *Facts, end error) (*provv1.Cluster, error) {
	cluster := facts.cluster
	condition, retry := outcome.Conclude(provv1.ConditionFleetCluster, end)
	if apierrors.IsNotFound(retry.Err) {
		return cluster, retry.Err // Fleet or the namespace is going, which the caches will show
	}
	if end == nil && conditions.Get(cluster.Status.Conditions, provv1.ConditionFleetCluster) == nil {
		return cluster, nil
	}
	changed := cluster.DeepCopy()
	if !outcome.Record(&changed.Status.Conditions, condition, retry, facts.now) {
		return cluster, retry.Err
	}
	updated, err := h.Clusters.UpdateStatus(changed)
	if apierrors.IsNotFound(err) {
		return cluster, nil
	}
	if err != nil {
		return cluster, fmt.Errorf("write status of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.Statuses.Wrote(cluster, updated, facts.now)
	return updated, retry.Err
}
