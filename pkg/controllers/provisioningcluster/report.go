package provisioningcluster

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/conditions"
	"github.com/drover-io/drover/pkg/outcome"
)

const (
	// reasonInvalid: the user has to change the Cluster, or make what it names.
	reasonInvalid = "InvalidSpec"
	// reasonOverdue: something does not go away, and a person has to look.
	reasonOverdue = "DeletionOverdue"
)

func invalid(message string) error { return outcome.Stall(reasonInvalid, message) }

// servedSoon is how soon to look again whether a kind is served: its cache being
// filled is no event of any object.
const servedSoon = 250 * time.Millisecond

// reportUnserved waits for kinds that were defined a moment ago, or whose cache
// is not filled yet because this process was just started. The second is nobody's
// business: what was fine before stays so.
func (h *handler) reportUnserved(seen *facts) (*provv1.Cluster, error) {
	cluster := seen.input.Cluster
	if conditions.IsTrue(cluster.Status.Conditions, provv1.ConditionRKECluster) || seen.controlPlane != nil {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, servedSoon)
		return cluster, nil
	}
	return h.report(seen, cluster, outcome.WaitFor("", "Waiting for kind "+seen.unserved[0]+" to be served", "timer", servedSoon))
}

// report writes the conditions of this controller, in one status write and only
// when they changed, and says what the queue does next.
func (h *handler) report(seen *facts, cluster *provv1.Cluster, end error) (*provv1.Cluster, error) {
	status := cluster.Status.DeepCopy()
	condition, retry := outcome.Conclude(provv1.ConditionRKECluster, end)
	conditions.Set(&status.Conditions, condition, seen.now)
	var ready *rkev1.GenericCondition
	if seen.controlPlane != nil {
		ready = conditions.Get(seen.controlPlane.Status.Conditions, rkev1.ConditionReady)
	}
	if ready != nil {
		follow(status, ready, seen.now)
	}
	if stalled := outcome.AsStalled(end); stalled != nil {
		// What the user asked for last is not what the cluster gets.
		blocked := conditions.Condition{Type: provv1.ConditionUpdated, Status: rkev1.ConditionFalse, Reason: condition.Reason, Message: condition.Message}
		conditions.Set(&status.Conditions, blocked, seen.now)
		if ready == nil {
			blocked.Type = provv1.ConditionReady
			conditions.Set(&status.Conditions, blocked, seen.now)
		}
	}
	updated, err := h.write(cluster, status)
	if err != nil {
		return cluster, err
	}
	if retry.After > 0 {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, retry.After)
	}
	return updated, retry.Err
}

// follow copies the control plane's line to the three conditions that user
// interfaces and scripts read it from. (spec/06 §1.8.1.)
func follow(status *provv1.ClusterStatus, ready *rkev1.GenericCondition, now time.Time) {
	for _, conditionType := range []string{provv1.ConditionUpdated, provv1.ConditionProvisioned, provv1.ConditionReady} {
		conditions.Set(&status.Conditions, conditions.Condition{
			Type: conditionType, Status: ready.Status, Reason: ready.Reason, Message: ready.Message,
		}, now)
	}
}

// reportRemoval shows what a removal waits for in condition Removed, and nothing
// else as a problem.
func (h *handler) reportRemoval(seen *facts, progress removal) (*provv1.Cluster, error) {
	cluster := seen.input.Cluster
	status := cluster.Status.DeepCopy()
	for _, conditionType := range []string{
		provv1.ConditionProvisioned, provv1.ConditionWaiting, provv1.ConditionPending, provv1.ConditionUpdated,
	} {
		conditions.Set(&status.Conditions, conditions.Condition{Type: conditionType, Status: rkev1.ConditionTrue}, seen.now)
	}
	end := progress.err
	if progress.waiting != nil {
		end = progress.waiting
	}
	condition, retry := outcome.Conclude(provv1.ConditionRemoved, end)
	conditions.Set(&status.Conditions, condition, seen.now)
	updated, err := h.write(cluster, status)
	if err != nil {
		return cluster, err
	}
	if retry.After > 0 {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, retry.After)
	}
	return updated, retry.Err
}

func (h *handler) write(cluster *provv1.Cluster, status *provv1.ClusterStatus) (*provv1.Cluster, error) {
	if equality.Semantic.DeepEqual(&cluster.Status, status) {
		return cluster, nil
	}
	changed := cluster.DeepCopy()
	changed.Status = *status
	updated, err := h.Clusters.UpdateStatus(changed)
	if apierrors.IsNotFound(err) {
		return cluster, nil
	}
	if err != nil {
		return nil, fmt.Errorf("write status of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return updated, nil
}
