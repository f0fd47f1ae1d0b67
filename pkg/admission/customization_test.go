package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

func TestDecide_ChecksTheCustomizationOfAgents(t *testing.T) {
	t.Parallel()
	agent := func(edit func(*provv1.AgentDeploymentCustomization)) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) {
			c.Spec.FleetAgentDeploymentCustomization = &provv1.AgentDeploymentCustomization{
				SchedulingCustomization: &provv1.AgentSchedulingCustomization{}}
			edit(c.Spec.FleetAgentDeploymentCustomization)
		}
	}
	budget := func(least, most string) func(*provv1.Cluster) {
		return agent(func(a *provv1.AgentDeploymentCustomization) {
			a.SchedulingCustomization.PodDisruptionBudget = &provv1.PodDisruptionBudgetSpec{MinAvailable: least,
				MaxUnavailable: most}
		})
	}
	near := func(term corev1.PodAffinityTerm) func(*provv1.Cluster) {
		return agent(func(a *provv1.AgentDeploymentCustomization) {
			a.OverrideAffinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{Weight: 1, PodAffinityTerm: term}},
			}}
		})
	}
	onNodes := func(expression corev1.NodeSelectorRequirement) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) {
			c.Spec.WebhookDeploymentCustomization = &provv1.WebhookDeploymentCustomization{
				OverrideAffinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{
							{MatchExpressions: []corev1.NodeSelectorRequirement{expression}},
						}},
				}}}
		}
	}
	toleration := func(one corev1.Toleration) func(*provv1.Cluster) {
		return agent(func(a *provv1.AgentDeploymentCustomization) { a.AppendTolerations = []corev1.Toleration{one} })
	}
	preemption := func(policy corev1.PreemptionPolicy) func(*provv1.Cluster) {
		return agent(func(a *provv1.AgentDeploymentCustomization) {
			a.SchedulingCustomization.PriorityClass = &provv1.PriorityClassSpec{Value: 5, PreemptionPolicy: &policy}
		})
	}
	const (
		fleet     = "spec.fleetAgentDeploymentCustomization."
		preferred = fleet +
			"overrideAffinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm."
		required = "spec.webhookDeploymentCustomization.overrideAffinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
	)
	for name, tc := range map[string]struct {
		edit func(*provv1.Cluster)
		want string
	}{
		"an empty budget": {budget("", ""), fleet +
			"schedulingCustomization.podDisruptionBudget: Required value"},
		"a budget of zeros": {budget("0", "0"), fleet +
			"schedulingCustomization.podDisruptionBudget: Required value"},
		"a budget with both fields": {budget("1", "50%"), fleet +
			"schedulingCustomization.podDisruptionBudget.maxUnavailable: Forbidden"},
		"a budget": {budget("0", "50%"), ""},
		"an invalid preemption policy": {preemption("Always"), fleet +
			"schedulingCustomization.priorityClass.preemptionPolicy: Unsupported value"},
		"no preemption": {preemption(corev1.PreemptNever), ""},
		"a toleration with an invalid key": {toleration(corev1.Toleration{Key: "a b"}), fleet +
			"appendTolerations[0].key: Invalid value"},
		"a toleration for all taints": {toleration(corev1.Toleration{Operator: corev1.TolerationOpExists}),
			""},
		"an affinity with an invalid label": {near(corev1.PodAffinityTerm{TopologyKey: "a b"}), preferred +
			"topologyKey: Invalid value"},
		"an affinity with an invalid operator": {
			near(corev1.PodAffinityTerm{TopologyKey: "zone",
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "a", Operator: "Is"}}}}), preferred +
				"labelSelector.matchExpressions[0].operator: Invalid value"},
		"near": {near(corev1.PodAffinityTerm{TopologyKey: "zone"}), ""},
		"node selector with an invalid operator": {onNodes(corev1.NodeSelectorRequirement{Key: "a", Operator: "Is"}),
			required + ".operator: Invalid value"},
		"node selector without a value": {
			onNodes(corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpIn}), required +
				": Invalid value"},
		"nodes": {onNodes(corev1.NodeSelectorRequirement{Key: "a", Operator: corev1.NodeSelectorOpGt,
			Values: []string{"3"}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := decide(t, request(t, "provisioning.cattle.io", "clusters", facts(t), nil, demo(tc.edit)))
			if got := topology.Explain(a.Errors); (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}
