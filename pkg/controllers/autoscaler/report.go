package autoscaler

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/autoscaling"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// report writes the condition, in one write and only if it changed. end is the problem with the account.
func (h *handler) report(facts *Facts, end error) (*provv1.Cluster, error) {
	cluster := facts.cluster
	program, err := h.program(facts)
	if err != nil {
		return cluster, err
	}
	seen := h.sight(facts.name())
	if facts.reachable && h.deploys(cluster) && seen.version != version(program) {
		h.visits.Wake(facts.name())
	}
	switch {
	case end != nil:
	case program == nil:
		return h.reportNone(cluster, seen)
	case seen.version == "" && isAvailable(cluster):
		return cluster, nil // after a restart or a new connection, the next visit confirms it
	default:
		end = autoscaling.Judge(program, seen.state, seen.version == version(program))
	}
	condition, retry := outcome.Conclude(provv1.ConditionClusterAutoscalerDeploymentReady, end)
	if condition.Message == "" {
		condition.Message = autoscaling.Advice(cluster, h.annotations(cluster.Namespace))
	}
	changed := cluster.DeepCopy()
	if !outcome.Record(&changed.Status.Conditions, condition, retry, h.Now()) {
		return cluster, retry.Err
	}
	return h.writeStatus(cluster, changed, retry.Err)
}

// reportNone removes the condition when the cluster has no autoscaler any more.
func (h *handler) reportNone(cluster *provv1.Cluster, seen sight) (*provv1.Cluster, error) {
	changed := cluster.DeepCopy()
	if seen.version != version(nil) ||
		!conditions.Remove(&changed.Status.Conditions, provv1.ConditionClusterAutoscalerDeploymentReady) {
		return cluster, nil // its visit requeues the Cluster, or it has no such condition
	}
	return h.writeStatus(cluster, changed, nil)
}

// writeStatus writes the status, and returns the problem that it reports.
func (h *handler) writeStatus(cluster, changed *provv1.Cluster, problem error) (*provv1.Cluster, error) {
	updated, err := h.Clusters.UpdateStatus(changed)
	if apierrors.IsNotFound(err) {
		return cluster, nil
	}
	if err != nil {
		return cluster, fmt.Errorf("write status of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.Statuses.Wrote(cluster, updated, h.Now())
	return updated, problem
}

// annotations returns the annotations of MachineDeployments in a namespace, by name.
func (h *handler) annotations(namespace string) func(deployment string) map[string]string {
	return func(deployment string) map[string]string {
		found, err := h.deployments.Get(namespace, deployment)
		if err != nil {
			return nil // it has none yet
		}
		return found.Annotations
	}
}
