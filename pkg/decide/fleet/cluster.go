package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// clusterSpec is Drover's part of the spec of a Fleet Cluster. Fleet and users write other fields.
type clusterSpec struct {
	KubeConfigSecret             string                               `json:"kubeConfigSecret"`
	KubeConfigSecretNamespace    string                               `json:"kubeConfigSecretNamespace"`
	AgentEnvVars                 []corev1.EnvVar                      `json:"agentEnvVars,omitempty"`
	PrivateRepoURL               string                               `json:"privateRepoURL,omitempty"`
	AgentTolerations             []corev1.Toleration                  `json:"agentTolerations,omitempty"`
	AgentAffinity                *corev1.Affinity                     `json:"agentAffinity,omitempty"`
	AgentResources               *corev1.ResourceRequirements         `json:"agentResources,omitempty"`
	AgentSchedulingCustomization *provv1.AgentSchedulingCustomization `json:"agentSchedulingCustomization,omitempty"`
}

// Cluster returns the Fleet Cluster of a provisioning Cluster. Equal input gives equal output.
// (docs/wire/fleet.md#fleet-cluster.)
func Cluster(cluster *provv1.Cluster, management *mgmtv3.Cluster) (*unstructured.Unstructured, error) {
	spec := clusterSpec{
		KubeConfigSecret: cluster.Status.ClientSecretName, KubeConfigSecretNamespace: cluster.Namespace,
		AgentEnvVars:   management.Spec.AgentEnvVars,
		PrivateRepoURL: management.Spec.ClusterSecrets.PrivateRegistryURL,
		AgentAffinity:  defaultAffinity(),
	}
	spec.customize(cluster.Spec.FleetAgentDeploymentCustomization)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return nil, fmt.Errorf("encode Fleet Cluster %s/%s: %w", topology.Workspace(cluster), cluster.Name, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	object.SetGroupVersionKind(ClusterKind)
	object.SetNamespace(topology.Workspace(cluster))
	object.SetName(cluster.Name)
	labels := cleaned(management.Labels)
	labels[mgmtv3.ClusterNameLabel] = management.Name
	if name := management.Spec.DisplayName; name != "" && len(validation.IsValidLabelValue(name)) == 0 {
		labels[mgmtv3.ClusterDisplayNameLabel] = name
	}
	object.SetLabels(labels)
	if annotations := cleaned(management.Annotations); len(annotations) > 0 {
		object.SetAnnotations(annotations)
	}
	return object, nil
}

// customize applies the customization of the agent, which may be nil.
func (s *clusterSpec) customize(agent *provv1.AgentDeploymentCustomization) {
	if agent == nil {
		return
	}
	s.AgentTolerations = slices.SortedFunc(slices.Values(agent.AppendTolerations), compareTolerations)
	if agent.OverrideAffinity != nil {
		s.AgentAffinity = agent.OverrideAffinity
	}
	s.AgentResources = agent.OverrideResourceRequirements
	if scheduling := agent.SchedulingCustomization; scheduling != nil &&
		(scheduling.PriorityClass != nil || scheduling.PodDisruptionBudget != nil) {
		s.AgentSchedulingCustomization = scheduling
	}
}

// compareTolerations gives tolerations one order, because the order in a manifest may change without a reason.
func compareTolerations(a, b corev1.Toleration) int {
	seconds := func(t corev1.Toleration) int64 {
		if t.TolerationSeconds == nil {
			return -1 << 62
		}
		return *t.TolerationSeconds
	}
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Operator, b.Operator),
		cmp.Compare(a.Effect, b.Effect), cmp.Compare(seconds(a), seconds(b)))
}

// defaultAffinity prefers the nodes that users have labeled for the agent.
func defaultAffinity() *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 1,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: "fleet.cattle.io/agent", Operator: corev1.NodeSelectorOpIn, Values: []string{"true"},
			}}},
		}},
	}}
}

// cleaned returns a copy without the notes of tools about the object itself.
func cleaned(m map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, m)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return strings.HasPrefix(key, "kubectl.kubernetes.io/") || strings.HasPrefix(key, "objectset.rio.cattle.io/")
	})
	return out
}
