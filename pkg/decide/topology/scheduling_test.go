package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

func TestManagementCluster_SchedulingOfTheAgent(t *testing.T) {
	t.Parallel()
	own := func() *provv1.AgentDeploymentCustomization {
		return &provv1.AgentDeploymentCustomization{SchedulingCustomization: &provv1.AgentSchedulingCustomization{
			PriorityClass: &provv1.PriorityClassSpec{Value: 7}}}
	}
	empty := &provv1.AgentDeploymentCustomization{}
	filled := &provv1.AgentDeploymentCustomization{SchedulingCustomization: &provv1.AgentSchedulingCustomization{
		PriorityClass:       &provv1.PriorityClassSpec{Value: 1_000_000_000},
		PodDisruptionBudget: &provv1.PodDisruptionBudgetSpec{MaxUnavailable: "1"},
	}}
	for name, tc := range map[string]struct {
		annotation  string
		agent, want *provv1.AgentDeploymentCustomization
	}{
		"no annotation":                   {agent: own(), want: own()},
		"neither":                         {},
		"the default":                     {annotation: "True", want: filled},
		"the default next to other parts": {annotation: "true", agent: empty, want: filled},
		"the user's own values stay":      {annotation: "true", agent: own(), want: own()},
		"switched off":                    {annotation: "false", agent: own(), want: empty},
		"nothing to switch off":           {annotation: "false"},
		"an unknown value":                {annotation: "on", agent: own(), want: own()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &provv1.Cluster{}
			cluster.Annotations = map[string]string{provv1.EnableSchedulingCustomizationAnnotation: tc.annotation}
			cluster.Spec.ClusterAgentDeploymentCustomization = tc.agent
			before := cluster.DeepCopy()
			got := ManagementCluster(cluster, Registry{}).Spec.ClusterAgentDeploymentCustomization
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, cluster); diff != "" {
				t.Errorf("the Cluster was changed:\n%s", diff)
			}
		})
	}
}
