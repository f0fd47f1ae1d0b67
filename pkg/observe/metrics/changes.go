package metrics

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/summary"
	"github.com/drover-io/drover/pkg/decide/topology"
)

const (
	clusterTrue  = metav1.ConditionTrue
	clusterFalse = metav1.ConditionFalse
)

// Stages of a cluster, one after the other.
const (
	// stageObjects: from the Cluster to its control plane and the objects of Cluster API.
	stageObjects = "objects"
	// stageMachines: until machines of all roles are registered.
	stageMachines = "machines"
	// stageBootstrap: until the first server runs.
	stageBootstrap = "bootstrap"
	// stageJoin: until all machines have their plans, and the cluster is ready.
	stageJoin = "join"
)

// Stages of a machine.
const (
	// stageInfrastructure: from the Machine until its host was created.
	stageInfrastructure = "infrastructure"
	// stageNode: until its node is known.
	stageNode = "node"
)

var (
	clusterStageNames = []string{stageObjects, stageMachines, stageBootstrap, stageJoin}
	machineStageNames = []string{stageInfrastructure, stageNode}
)

// operations maps the conditions that report the end of operations to the codes of their failures.
var operations = map[string]string{
	planner.ConditionSnapshotCreated:     codeSnapshot,
	planner.ConditionSnapshotRestored:    codeRestore,
	planner.ConditionCertificatesRotated: codeCertificates,
	planner.ConditionKeysRotated:         codeKeys,
}

// owns returns the cluster if this instance manages it, else nil. Without a source it returns nil.
func (f *Fleet) owns(namespace, name string) *provv1.Cluster {
	source := f.leads()
	if source == nil {
		return nil
	}
	if cluster := source.Cluster(namespace, name); topology.IsOurs(cluster, source.InstanceID) {
		return cluster
	}
	return nil
}

func (f *Fleet) fail(code string) { f.failures.WithLabelValues(code).Inc() }

// ClusterChanged counts failures to create or remove a cluster.
func (f *Fleet) ClusterChanged(before, after *provv1.Cluster) {
	if f.owns(after.Namespace, after.Name) == nil {
		return
	}
	for _, kind := range []string{provv1.ConditionCreated, provv1.ConditionRKECluster, provv1.ConditionRemoved} {
		if failed := failedNow(before.Status.Conditions, after.Status.Conditions, kind); failed != nil {
			f.fail(asCode(failed.Reason))
		}
	}
}

// ControlPlaneChanged counts failures of a cluster. It observes the stages of a cluster that is ready for the first
// time: its status then gets an applied spec.
func (f *Fleet) ControlPlaneChanged(before, after *rkev1.RKEControlPlane) {
	cluster := f.owns(after.Namespace, after.Name)
	if cluster == nil {
		return
	}
	old, now := before.Status.Conditions, after.Status.Conditions
	if failedNow(old, now, rkev1.ConditionReady) != nil {
		f.fail(f.Reasons.code(after.Namespace + "/" + after.Name))
	}
	for kind, code := range operations {
		if failed := failedNow(old, now, kind); failed != nil && failed.Reason != planner.ReasonCancelled {
			f.fail(code)
		}
	}
	if before.Status.AppliedSpec != nil || after.Status.AppliedSpec == nil {
		return
	}
	at := cluster.CreationTimestamp.Time
	for _, stage := range []struct {
		name string
		end  time.Time
	}{
		{stageObjects, after.CreationTimestamp.Time},
		{stageMachines, since(now, rkev1.ConditionProvisioned)},
		{stageBootstrap, since(now, rkev1.ConditionBootstrapped)},
		{stageJoin, since(now, rkev1.ConditionReady)},
	} {
		if !stage.end.IsZero() {
			f.clusterStages.WithLabelValues(stage.name).Observe(seconds(at, stage.end))
			at = stage.end
		}
	}
	f.clusterReady.Observe(seconds(cluster.CreationTimestamp.Time, at))
}

// MachineChanged counts failures of a machine, and observes its stages once its node is known.
func (f *Fleet) MachineChanged(before, after *clusterv1.Machine) {
	if f.owns(after.Namespace, after.Spec.ClusterName) == nil {
		return
	}
	old, now := before.Status.Conditions, after.Status.Conditions
	if conditions.IsFalseMeta(now, rkev1.ConditionPlanApplied) &&
		!conditions.IsFalseMeta(old, rkev1.ConditionPlanApplied) {
		f.fail(summary.ReasonPlan)
	}
	if conditions.IsFalseMeta(now, clusterv1.MachineNodeHealthyCondition) &&
		conditions.IsTrueMeta(old, clusterv1.MachineNodeHealthyCondition) &&
		after.DeletionTimestamp.IsZero() {
		f.fail(summary.ReasonUnhealthy)
	}
	if !before.Status.NodeRef.IsDefined() && after.Status.NodeRef.IsDefined() {
		f.joined(after)
	}
}

// joined observes the stages of a machine whose node has become known.
func (f *Fleet) joined(machine *clusterv1.Machine) {
	infrastructure := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	if infrastructure == nil || infrastructure.Status != clusterTrue {
		return
	}
	made, joined := infrastructure.LastTransitionTime.Time, f.now()
	if updated := machine.Status.LastUpdated.Time; updated.After(made) && updated.Before(joined) {
		joined = updated // the phase changed with the node
	}
	f.machineStages.WithLabelValues(stageInfrastructure).Observe(seconds(machine.CreationTimestamp.Time, made))
	f.machineStages.WithLabelValues(stageNode).Observe(seconds(made, joined))
}

// InfrastructureChanged counts failures to create or remove a host, from its infrastructure machine.
func (f *Fleet) InfrastructureChanged(before, after *unstructured.Unstructured) {
	if f.owns(after.GetNamespace(), after.GetLabels()[clusterv1.ClusterNameLabel]) == nil {
		return
	}
	was, is := infrastructureFailure(before), infrastructureFailure(after)
	if is != "" && is != was {
		f.fail(asCode(is))
	}
}

// infrastructureFailure returns why an infrastructure machine is not ready and needs a user's attention.
func infrastructureFailure(machine *unstructured.Unstructured) string {
	if reason, _, _ := unstructured.NestedString(machine.Object, "status", "failureReason"); reason != "" {
		return reason
	}
	list, _, _ := unstructured.NestedSlice(machine.Object, "status", "conditions")
	for _, item := range list {
		condition, _ := item.(map[string]any)
		if reason, _ := condition["reason"].(string); condition["type"] == rkev1.ConditionReady &&
			condition["status"] == rkev1.ConditionFalse && isFailure[reason] {
			return reason
		}
	}
	return ""
}

// PlanChanged observes how long a plan took, once all its probes have passed.
func (f *Fleet) PlanChanged(before, after *corev1.Secret) {
	if after.Type != rkev1.SecretTypeMachinePlan || after.Annotations[rkev1.PlanProbesPassedAnnotation] == "" ||
		before.Annotations[rkev1.PlanProbesPassedAnnotation] != "" ||
		f.owns(after.Namespace, after.Labels[rkev1.ClusterNameLabel]) == nil {
		return
	}
	if report := readPlan(after); !report.delivered.IsZero() && !report.passed.IsZero() {
		f.planDuration.Observe(seconds(report.delivered, report.passed))
	}
}

// failedNow returns the condition if it has become False.
func failedNow(before, after []rkev1.GenericCondition, kind string) *rkev1.GenericCondition {
	if !conditions.IsFalse(after, kind) || conditions.IsFalse(before, kind) {
		return nil
	}
	return conditions.Get(after, kind)
}

// isFailure contains the reasons that count as failures.
var isFailure = func() map[string]bool {
	out := map[string]bool{}
	for _, code := range Codes() {
		out[code] = true
	}
	return out
}()

// asCode converts a reason to a value of the label code.
func asCode(reason string) string {
	if isFailure[reason] {
		return reason
	}
	return reasonOther
}

// since returns when a condition became True, zero if it is not True.
func since(list []rkev1.GenericCondition, kind string) time.Time {
	c := conditions.Get(list, kind)
	if c == nil || c.Status != rkev1.ConditionTrue {
		return time.Time{}
	}
	at, _ := time.Parse(time.RFC3339, c.LastTransitionTime)
	return at
}

// seconds returns the time between two moments, at least 0. Times of objects have whole seconds, so a later one may
// appear earlier.
func seconds(from, to time.Time) float64 { return max(0, to.Sub(from).Seconds()) }
