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

// reasonReconciling is the reason of condition Reconciling until the cluster has been reached.
const reasonReconciling = "Reconciling"

// reasonDisconnected is the reason of conditions Connected and Ready of a management cluster whose agent is
// disconnected. (docs/wire/capi.md#management-cluster.)
const reasonDisconnected = "Disconnected"

func (f *facts) connected() bool {
	return f.management != nil && conditions.IsTrue(f.management.Status.Conditions, mgmtv3.ClusterConditionConnected)
}

// managementStatus returns the status of the management cluster. It copies only the result of the control plane, not
// its progress texts. Those would cost one more write per step of every cluster.
func (f *facts) managementStatus(answered bool) mgmtv3.ClusterStatus {
	status := f.management.Status.DeepCopy()
	f.connection(status, answered)
	status.Info.MachineProvider = topology.MachineProvider(f.cluster)
	status.Info.KubernetesVersion = f.cluster.Spec.KubernetesVersion
	if status.Info.ProvisioningClusterRef == nil {
		status.Info.ProvisioningClusterRef = &corev1.ObjectReference{
			APIVersion: provv1.SchemeGroupVersion.String(), Kind: "Cluster", Namespace: f.cluster.Namespace, Name: f.cluster.Name,
		}
	}
	if status.Provider == "" {
		status.Provider = topology.Distribution(f.cluster.Spec.KubernetesVersion)
	}
	status.ReadyReconciling = f.cluster.Spec.RKEConfig != nil
	if f.cluster.Spec.RKEConfig == nil {
		f.imported(status)
	}
	if f.controlPlane == nil {
		return *status
	}
	of := f.controlPlane.Status.Conditions
	status.ReadyReconciling = !conditions.IsTrue(of, rkev1.ConditionStable)
	f.follow(status, mgmtv3.ClusterConditionUpdated, conditions.Get(of, rkev1.ConditionReady))
	f.follow(status, mgmtv3.ClusterConditionProvisioned, conditions.Get(of, rkev1.ConditionProvisioned))
	if f.link.lost && !status.ReadyReconciling {
		conditions.Set(&status.Conditions, disconnected(mgmtv3.ClusterConditionReady), f.now)
		return *status
	}
	f.follow(status, mgmtv3.ClusterConditionReady, conditions.Get(of, rkev1.ConditionReady))
	return *status
}

// imported sets the status of an imported cluster, where Drover knows only its agent.
func (f *facts) imported(status *mgmtv3.ClusterStatus) {
	switch {
	case f.link.connected:
		for _, kind := range []string{mgmtv3.ClusterConditionProvisioned, mgmtv3.ClusterConditionReady} {
			conditions.Set(&status.Conditions, conditions.Condition{Type: kind, Status: rkev1.ConditionTrue}, f.now)
		}
	case f.link.lost:
		conditions.Set(&status.Conditions, disconnected(mgmtv3.ClusterConditionReady), f.now)
	}
}

// connection sets whether the cluster is reachable. A cluster with an agent is connected while its agent is. Without an
// agent, it is connected once its API server has answered.
func (f *facts) connection(status *mgmtv3.ClusterStatus, answered bool) {
	switch connected := (conditions.Condition{Type: mgmtv3.ClusterConditionConnected, Status: rkev1.ConditionTrue}); {
	case f.link.connected:
		conditions.Set(&status.Conditions, connected, f.now)
		conditions.Set(&status.Conditions, conditions.Condition{Type: mgmtv3.ClusterConditionAgentDeployed, Status: rkev1.ConditionTrue}, f.now)
	case f.link.lost:
		conditions.Set(&status.Conditions, disconnected(mgmtv3.ClusterConditionConnected), f.now)
	case f.link.agent: // it may be about to reconnect
	case answered:
		conditions.Set(&status.Conditions, connected, f.now)
	}
}

func disconnected(conditionType string) conditions.Condition {
	return conditions.Condition{
		Type: conditionType, Status: rkev1.ConditionFalse, Reason: reasonDisconnected, Message: "Cluster agent is not connected",
	}
}

func (f *facts) follow(status *mgmtv3.ClusterStatus, conditionType string, source *rkev1.GenericCondition) {
	if source == nil {
		return
	}
	now := conditions.Get(status.Conditions, conditionType)
	if now != nil && now.Status == source.Status && now.Reason == source.Reason {
		return
	}
	conditions.Set(&status.Conditions, conditions.Condition{
		Type: conditionType, Status: source.Status, Reason: source.Reason, Message: source.Message,
	}, f.now)
}

// report writes this controller's part of the status, in one write and only if it changed. seen is nil if the
// management side could not be created.
func (h *handler) report(cluster *provv1.Cluster, seen *facts, end error) (*provv1.Cluster, error) {
	now := h.Now()
	status := cluster.Status.DeepCopy()
	created, retry := outcome.Conclude(provv1.ConditionCreated, end)
	outcome.Record(&status.Conditions, created, retry, now)
	if seen != nil && end == nil {
		status.FleetWorkspaceName = topology.Workspace(cluster)
		status.ObservedGeneration = cluster.Generation
		// Never back to false: a cluster that is temporarily unreachable keeps its kubeconfig.
		status.Ready = status.Ready || seen.connected()
		if seen.management != nil {
			status.AgentDeployed = conditions.IsTrue(seen.management.Status.Conditions, mgmtv3.ClusterConditionAgentDeployed)
		}
		if status.Ready && seen.kubeconfig != nil {
			status.ClientSecretName = naming.Kubeconfig(cluster.Name)
		}
	}
	for _, condition := range progress(cluster, status, seen, end) {
		conditions.Set(&status.Conditions, condition, now)
	}
	if equality.Semantic.DeepEqual(&cluster.Status, status) {
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
	return updated, retry.Err
}

// progress returns the two conditions that tools know for every kind. A cluster is Reconciling until it has been
// reached, and Stalled while a person must act.
func progress(cluster *provv1.Cluster, status *provv1.ClusterStatus, seen *facts, end error) []conditions.Condition {
	reconciling := conditions.Condition{Type: provv1.ConditionReconciling, Status: rkev1.ConditionFalse}
	stalled := conditions.Condition{Type: provv1.ConditionStalled, Status: rkev1.ConditionFalse}
	switch problem := outcome.AsStalled(end); {
	case problem != nil:
		stalled.Status, stalled.Reason, stalled.Message = rkev1.ConditionTrue, problem.Reason, problem.Message
	case !status.Ready && cluster.Spec.RKEConfig == nil:
		reconciling.Status, reconciling.Reason = rkev1.ConditionTrue, reasonReconciling
		reconciling.Message = fmt.Sprintf("Waiting for the agent of the cluster, which the command of ClusterRegistrationToken %s/%s installs",
			status.ClusterName, naming.DefaultRegistrationToken)
	case !status.Ready && (seen == nil || seen.kubeconfig == nil):
		reconciling.Status, reconciling.Reason = rkev1.ConditionTrue, reasonReconciling
		reconciling.Message = "Waiting for the agent of the cluster to connect, or for a server to report its kubeconfig"
	case !status.Ready:
		reconciling.Status, reconciling.Reason = rkev1.ConditionTrue, reasonReconciling
		reconciling.Message = "Waiting for the API server of the cluster to answer the management plane"
	}
	return []conditions.Condition{reconciling, stalled}
}
