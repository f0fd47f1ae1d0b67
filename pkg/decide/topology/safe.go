package topology

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// safe returns the input with a safe value in place of everything that Tolerated permits. It keeps valid values and
// does not modify the input.
func safe(in Input) Input {
	in = KeepRoles(in)
	byPool, most := deletedOfMost(in)
	for i := range pools(in.Cluster) {
		pool := &pools(in.Cluster)[i]
		if unreadableRange(pool) {
			// The limit is unknown, so no machine is replaced.
			pool.UnhealthyRange, pool.MaxUnhealthy = nil, new("0%")
		}
		if most && byPool[i] > 0 {
			pool.RollingUpdate = &provv1.RKEMachinePoolRollingUpdate{MaxSurge: new(intstr.FromInt32(1)),
				MaxUnavailable: new(intstr.FromInt32(0))}
		}
	}
	return in
}

// KeepRoles returns the input with the server roles of the existing machines: see validateKeptRoles. The pools are
// copies.
func KeepRoles(in Input) Input {
	if in.Cluster.Spec.RKEConfig == nil {
		return in
	}
	cluster, config := *in.Cluster, *in.Cluster.Spec.RKEConfig
	config.MachinePools = slices.Clone(config.MachinePools)
	cluster.Spec.RKEConfig = &config
	for i := range config.MachinePools {
		pool := &config.MachinePools[i]
		if had, machines := in.Roles[naming.MachineDeployment(cluster.Name, pool.Name)]; machines && pool.Name != "" {
			pool.EtcdRole, pool.ControlPlaneRole = had.Etcd, had.ControlPlane
		}
	}
	in.Cluster = &cluster
	return in
}

// safeBudgets removes disruption budgets that ValidateBudget rejects, because the agent can be deployed without one.
// The spec is already a copy.
func safeBudgets(spec *provv1.ClusterSpec) {
	agent := spec.ClusterAgentDeploymentCustomization
	if spec.RKEConfig == nil || agent == nil || agent.SchedulingCustomization == nil {
		return // package clustermanifest checks the budget of an imported cluster
	}
	if len(ValidateBudget(agent.SchedulingCustomization.PodDisruptionBudget, nil)) > 0 {
		agent.SchedulingCustomization.PodDisruptionBudget = nil
	}
}
