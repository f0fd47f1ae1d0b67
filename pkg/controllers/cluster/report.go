package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// report writes this controller's part of the status, in one write and only if it changed.
func (h *handler) report(facts *Facts, end error) (*provv1.Cluster, error) {
	cluster := facts.cluster
	status := cluster.Status.DeepCopy()
	if end == nil {
		// Never back to false: a cluster that is temporarily unreachable keeps its kubeconfig.
		status.Ready = status.Ready || facts.connected()
		if facts.management != nil {
			of := facts.management.Status.Conditions
			status.AgentDeployed = conditions.IsTrue(of, mgmtv3.ClusterConditionAgentDeployed)
		}
		if status.Ready && facts.kubeconfig != nil {
			status.ClientSecretName = naming.Kubeconfig(cluster.Name)
		}
	}
	condition, retry := outcome.Conclude(provv1.ConditionReconciling, end)
	condition.Status = rkev1.ConditionTrue // a failure is tried again
	if end == nil {
		condition = facts.reconciling(status.Ready, h.Refuses)
	}
	outcome.Record(&status.Conditions, condition, retry, facts.now)
	if equality.Semantic.DeepEqual(&cluster.Status, status) {
		return cluster, retry.Err
	}
	if left := h.Statuses.Hold(cluster.UID, facts.now); left > 0 && onlyTexts(cluster.Status, *status) {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, left)
		return cluster, retry.Err
	}
	changed := cluster.DeepCopy()
	changed.Status = *status
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

// onlyTexts reports whether two statuses differ in reasons and messages alone.
func onlyTexts(stored, status provv1.ClusterStatus) bool {
	same := conditions.SameStatuses(stored.Conditions, status.Conditions)
	stored.Conditions, status.Conditions = nil, nil
	return same && equality.Semantic.DeepEqual(stored, status)
}

// reconciling returns the condition that tools know for every kind. A cluster is Reconciling until it has been reached,
// unless it is Stalled. refuses returns why its kubeconfig is not used.
func (f *Facts) reconciling(ready bool, refuses func(*corev1.Secret) error) conditions.Condition {
	c := topology.Unreached(f.cluster)
	switch {
	case ready || conditions.IsTrue(f.cluster.Status.Conditions, provv1.ConditionStalled):
		c.Status, c.Reason, c.Message = rkev1.ConditionFalse, "", ""
	case f.cluster.Spec.RKEConfig == nil, f.kubeconfig == nil:
	case refuses != nil && refuses(f.kubeconfig) != nil:
		c.Message = refuses(f.kubeconfig).Error()
	default:
		c.Message = "Waiting for the API server of the cluster to answer the management plane"
	}
	return c
}
