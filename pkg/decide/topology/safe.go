package topology

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// safe is the input with a value that does no harm for everything that Tolerated
// lets pass. What is in order stays as it is, and so does the input itself.
func safe(in Input) Input {
	in = KeepRoles(in)
	byPool, most := deletedOfMost(in)
	for i := range pools(in.Cluster) {
		pool := &pools(in.Cluster)[i]
		if unreadableRange(pool) {
			// Nobody knows when to replace machines, so none is.
			pool.UnhealthyRange, pool.MaxUnhealthy = nil, new("0%")
		}
		if most && byPool[i] > 0 {
			pool.RollingUpdate = &provv1.RKEMachinePoolRollingUpdate{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}
		}
	}
	return in
}

// KeepRoles gives pools the roles of servers that their machines have: see
// validateKeptRoles. The pools are copies.
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

// safeBudgets leaves out disruption budgets that ValidateBudget refuses: without
// one the agent is deployed all the same. The spec is a copy already.
func safeBudgets(spec *provv1.ClusterSpec) {
	agent := spec.ClusterAgentDeploymentCustomization
	if spec.RKEConfig == nil || agent == nil || agent.SchedulingCustomization == nil {
		return // what an imported cluster asks for is checked where its manifest is made
	}
	if len(ValidateBudget(agent.SchedulingCustomization.PodDisruptionBudget, nil)) > 0 {
		agent.SchedulingCustomization.PodDisruptionBudget = nil
	}
}
