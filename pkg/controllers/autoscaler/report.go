package autoscaler

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/autoscaling"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// report writes the condition, in one write and only if it changed. end is the problem with the account.
func (h *handler) report(facts *Facts, end error) (*provv1.Cluster, error) { //nolint:gocyclo // each case is one early return
	cluster := facts.cluster
	program := h.program(facts)
	seen := h.sight(facts.name())
	if facts.reachable && h.deploys(cluster) && seen.version != version(program) {
		h.visits.Wake(facts.name())
	}
	changed := cluster.DeepCopy()
	var retry outcome.Retry
	switch {
	case end == nil && program == nil && seen.version != version(nil):
		return cluster, nil // its visit requeues the Cluster
	case end == nil && program == nil:
		changed.Status.Conditions = slices.DeleteFunc(changed.Status.Conditions, func(c rkev1.GenericCondition) bool {
			return c.Type == provv1.ConditionClusterAutoscalerDeploymentReady
		})
		if len(changed.Status.Conditions) == len(cluster.Status.Conditions) {
			return cluster, nil
		}
	default:
		if end == nil {
			end = autoscaling.Judge(program, seen.state, seen.version == version(program))
		}
		condition, again := outcome.Conclude(provv1.ConditionClusterAutoscalerDeploymentReady, end)
		if condition.Message == "" {
			condition.Message = autoscaling.Advice(cluster, h.annotations(cluster.Namespace))
		}
		if retry = again; !outcome.Record(&changed.Status.Conditions, condition, retry, h.Now()) {
			return cluster, retry.Err
		}
	}
	updated, err := h.Clusters.UpdateStatus(changed)
	if apierrors.IsNotFound(err) {
		return cluster, nil
	}
	if err != nil {
		return cluster, fmt.Errorf("write status of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.Statuses.Wrote(cluster, updated, h.Now())
	return updated, retry.Err
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
