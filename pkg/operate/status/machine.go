package status

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/summary"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Stages of a machine.
const (
	stageInfrastructure = "infrastructure"
	stageNode           = "node"
)

// OfMachine returns the row of a machine.
func OfMachine(machine *clusterv1.Machine) Machine {
	s := summary.OfMachine(machine)
	row := Machine{
		Namespace: machine.Namespace, Name: machine.Name, Cluster: machine.Spec.ClusterName,
		Pool: machine.Labels[rkev1.MachinePoolNameLabel],
		Roles: roles(topology.RolesOf(machine.Labels),
			machine.Labels[rkev1.WorkerRoleLabel] == rkev1.RoleLabelValue),
		State: s.State, Reason: s.Reason, Message: told(s.Message), Since: when(s.Since),
		Node: machine.Status.NodeRef.Name, ProviderID: machine.Spec.ProviderID,
		Infrastructure:     machine.Spec.InfrastructureRef.Kind,
		InfrastructureName: machine.Spec.InfrastructureRef.Name,
		Stages:             machineStages(machine), Created: machine.CreationTimestamp.UTC(),
	}
	if info := machine.Status.NodeInfo; info != nil {
		row.Version, row.OS, row.Runtime = info.KubeletVersion, info.OSImage, info.ContainerRuntimeVersion
	}
	for _, address := range machine.Status.Addresses {
		if !slices.Contains(row.Addresses, address.Address) {
			row.Addresses = append(row.Addresses, address.Address)
		}
	}
	for i := range machine.Status.Conditions {
		c := &machine.Status.Conditions[i]
		row.Conditions = append(row.Conditions, conditionOf(c.Type, string(c.Status), c.Reason, c.Message,
			c.LastTransitionTime.Time))
	}
	return row
}

// machineStages returns the stages of a machine. The phase of a Machine changes with its node for the last time, until
// its deletion.
func machineStages(machine *clusterv1.Machine) []Stage {
	if !machine.DeletionTimestamp.IsZero() {
		return nil
	}
	out := []Stage{{Name: stageInfrastructure, Begin: machine.CreationTimestamp.UTC()}}
	made := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineInfrastructureReadyCondition)
	if made == nil || made.Status != metav1.ConditionTrue {
		return out
	}
	out = next(out, stageNode, made.LastTransitionTime.Time)
	if !machine.Status.NodeRef.IsDefined() {
		return out
	}
	joined := machine.Status.LastUpdated.Time
	if joined.Before(made.LastTransitionTime.Time) {
		return nil // the host was not ready again meanwhile, so the times of its creation are lost
	}
	end(&out[len(out)-1], joined)
	return out
}
