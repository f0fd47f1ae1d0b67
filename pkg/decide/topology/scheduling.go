package topology

import (
	"strings"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// defaultPriority is the priority of agents by default. It is the highest that users may set.
const defaultPriority = 1_000_000_000

// scheduling returns how the agent of a cluster is scheduled, with the annotation of the Cluster applied: "true" fills
// in a default, and "false" ignores the field. Other values mean nothing. The default budget permits the eviction of
// one pod, so that nodes can be drained even if the cluster has one agent only.
// (docs/wire/names.md#annotations.)
func scheduling(cluster *provv1.Cluster,
	agent *provv1.AgentDeploymentCustomization) *provv1.AgentDeploymentCustomization {
	switch strings.ToLower(cluster.Annotations[provv1.EnableSchedulingCustomizationAnnotation]) {
	case "false":
		if agent != nil {
			agent.SchedulingCustomization = nil
		}
	case "true":
		if agent == nil {
			agent = &provv1.AgentDeploymentCustomization{}
		}
		if agent.SchedulingCustomization == nil {
			agent.SchedulingCustomization = &provv1.AgentSchedulingCustomization{
				PriorityClass:       &provv1.PriorityClassSpec{Value: defaultPriority},
				PodDisruptionBudget: &provv1.PodDisruptionBudgetSpec{MaxUnavailable: "1"},
			}
		}
	}
	return agent
}
