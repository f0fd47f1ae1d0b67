package events

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/restoredspec"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// ClusterChanged returns the events of a change of a provisioning Cluster.
func ClusterChanged(before, after *provv1.Cluster) []Event {
	l := about(clusterKind, after)
	condition := func(kind string) transition {
		return transition{ownCondition(before.Status.Conditions, kind), ownCondition(after.Status.Conditions, kind)}
	}
	if before.DeletionTimestamp.IsZero() && !after.DeletionTimestamp.IsZero() {
		l.normal(ReasonClusterDeleting, "The cluster is being removed")
	}
	if removed := condition(provv1.ConditionRemoved); removed.became(rkev1.ConditionFalse) {
		l.warning(ReasonClusterDeletionFailed, removed.is.why())
	}
	if !after.DeletionTimestamp.IsZero() {
		// the other conditions only follow the deletion
		return slices.Concat(l.events, held(clusterKind, before, after))
	}
	if created := condition(provv1.ConditionCreated); created.became(rkev1.ConditionFalse) {
		l.warning(ReasonIdentityFailed, created.is.why())
	}
	progress(l, condition)
	for kind, reason := range warnings {
		if questioned := condition(kind); questioned.became(rkev1.ConditionFalse) {
			l.warning(reason, questioned.is.why())
		}
	}
	if reached := condition(provv1.ConditionReconciling); after.Spec.RKEConfig == nil &&
		reached.became(rkev1.ConditionTrue) {
		l.normal(ReasonClusterProgressing, reached.is.message) // an imported cluster has no condition Ready
	}
	if !before.Status.Ready && after.Status.Ready {
		l.normal(ReasonClusterConnected, "The API of the cluster answers; its kubeconfig is in Secret "+after.Name+
			"-kubeconfig")
	}
	return sorted(l.events)
}

// progress adds events on whether Drover can apply the spec, and whether all machines have what it asks for.
func progress(l *list, condition func(string) transition) {
	switch made := condition(provv1.ConditionRKECluster); {
	case made.became(rkev1.ConditionFalse), made.wasCorrected():
		l.warning(ReasonSpecRefused, made.is.why())
	case made.became(rkev1.ConditionTrue):
		l.normal(ReasonSpecApplied, "The objects of the cluster match its spec")
	}
	switch ready := condition(provv1.ConditionReady); {
	case ready.became(rkev1.ConditionTrue):
		l.normal(ReasonClusterReady, "All machines match the spec")
	case ready.became(rkev1.ConditionFalse):
		l.warning(ReasonClusterNotReady, ready.is.why())
	case ready.became(rkev1.ConditionUnknown):
		l.normal(ReasonClusterProgressing, ready.is.why())
	}
}

// warnings maps conditions to the reasons of their warnings. When such a condition is False, the cluster works but
// needs attention.
var warnings = map[string]Reason{
	planner.ConditionConfigurationUnderstood: ReasonConfigurationQuestioned,
	planner.ConditionEtcdQuorum:              ReasonEtcdQuorumWeak,
	provv1.ConditionFleetCluster:             ReasonFleetQuestioned,
	planner.ConditionRenderVersions:          ReasonRenderVersionsUnknown,
	planner.ConditionAgentsUpgraded:          ReasonAgentsNotUpgraded,
}

// sorted orders events by reason.
func sorted(events []Event) []Event {
	slices.SortStableFunc(events, func(a, b Event) int { return strings.Compare(string(a.Reason), string(b.Reason)) })
	return events
}

// ControlPlaneChanged returns the events of a change of an RKEControlPlane, mostly about its Cluster.
func ControlPlaneChanged(cluster *provv1.Cluster, before, after *rkev1.RKEControlPlane) []Event {
	own, whole := about(controlPlaneKind, after), about(clusterKind, cluster)
	condition := func(kind string) transition {
		return transition{ownCondition(before.Status.Conditions, kind), ownCondition(after.Status.Conditions, kind)}
	}
	if registered := condition(rkev1.ConditionProvisioned); registered.became(rkev1.ConditionTrue) &&
		after.DeletionTimestamp.IsZero() {
		own.normal(ReasonMachinesRegistered, "Machines of all roles are registered")
	}
	if bootstrapped := condition(rkev1.ConditionBootstrapped); bootstrapped.became(rkev1.ConditionTrue) {
		own.normal(ReasonBootstrapped, "The first server runs")
	}
	if stable := condition(rkev1.ConditionStable); stable.left() && after.DeletionTimestamp.IsZero() {
		own.warning(ReasonRoleLost, stable.is.why())
	}
	upgrade(whole, before, after)
	restoredConfiguration(whole, before, after)
	for _, record := range after.Status.Operations {
		at := slices.IndexFunc(before.Status.Operations, func(r rkev1.OperationRecord) bool {
			return r.Name == record.Name
		})
		was := rkev1.OperationRecord{}
		if at >= 0 {
			was = before.Status.Operations[at]
		}
		operation(whole, was, record)
	}
	return slices.Concat(own.events, whole.events)
}

// upgrade adds events when another Kubernetes version is requested, and when all nodes have it.
func upgrade(l *list, before, after *rkev1.RKEControlPlane) {
	if was, is := before.Spec.KubernetesVersion, after.Spec.KubernetesVersion; was != is && was != "" {
		l.normal(ReasonUpgradeStarted, fmt.Sprintf("The spec requests Kubernetes %s instead of %s", is, was))
	}
	had, has := before.Status.AppliedSpec, after.Status.AppliedSpec
	if had != nil && has != nil && had.KubernetesVersion != has.KubernetesVersion {
		l.normal(ReasonUpgradeFinished, fmt.Sprintf("All nodes have Kubernetes %s instead of %s",
			has.KubernetesVersion, had.KubernetesVersion))
	}
}

// operation adds an event for a new state of an operation. The request itself causes none, because users wrote it.
// restoredConfiguration lists the fields that go back with a restore. They come in one write with its request. Values
// may be secrets, so only the version is shown.
func restoredConfiguration(l *list, before, after *rkev1.RKEControlPlane) {
	was, is := before.Spec.ETCDSnapshotRestore, after.Spec.ETCDSnapshotRestore
	if !restoredspec.Configures(is) || was != nil && *was == *is {
		return
	}
	old, err := topology.SpecOfControlPlane(before.Annotations[rkev1.ClusterSpecAnnotation])
	if err != nil {
		return
	}
	restored, err := topology.SpecOfControlPlane(after.Annotations[rkev1.ClusterSpecAnnotation])
	if err != nil {
		return
	}
	changes, err := restoredspec.Differences(old, restored, is.RestoreRKEConfig)
	if err != nil || len(changes) == 0 {
		return
	}
	l.normal(ReasonConfigurationRestored, fmt.Sprintf("The restore of snapshot %s puts these fields back: %s", is.Name,
		restoredspec.Listed(changes)))
}

func operation(l *list, was, is rkev1.OperationRecord) {
	if was.State == is.State && was.Attempt == is.Attempt {
		return
	}
	switch is.State {
	case rkev1.OperationStateRunning:
		l.normal(ReasonOperationStarted, is.Name)
	case rkev1.OperationStateSucceeded:
		l.normal(ReasonOperationSucceeded, is.Name)
	case rkev1.OperationStateFailed:
		l.warning(ReasonOperationFailed, is.Name, is.Message)
	case rkev1.OperationStateCancelled:
		l.normal(ReasonOperationCancelled, is.Name, "its request was withdrawn")
	}
}

// PoolChanged returns the events of a change of a MachineDeployment about its Cluster. Another template makes Cluster
// API replace machines.
func PoolChanged(cluster *provv1.Cluster, before, after *clusterv1.MachineDeployment) []Event {
	was, is := before.Spec.Template.Spec, after.Spec.Template.Spec
	if was.InfrastructureRef == is.InfrastructureRef && was.Bootstrap.ConfigRef == is.Bootstrap.ConfigRef {
		return nil
	}
	l := about(clusterKind, cluster)
	machines := "its machines are"
	if after.Spec.Replicas != nil {
		machines = fmt.Sprintf("its %d machines are", *after.Spec.Replicas)
	}
	l.normal(ReasonPoolRollOut, fmt.Sprintf("MachineDeployment %s has the new machine template %s: %s replaced, "+
		"cause %s",
		after.Name, is.InfrastructureRef.Name, machines, disruption.EditPool))
	return l.events
}
