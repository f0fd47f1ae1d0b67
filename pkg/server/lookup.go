package server

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// lookup finds in caches the objects that belong to a changed object. It returns nil for missing objects and for
// objects of other instances.
type lookup struct {
	caches     *clients.Clients
	instanceID string
}

func found[T any](object *T, err error) *T {
	if err != nil {
		return nil
	}
	return object
}

// cluster returns the Cluster with that name.
func (l lookup) cluster(namespace, name string) *provv1.Cluster {
	cluster := found(l.caches.Provisioning.Cluster().Cache().Get(namespace, name))
	if !topology.IsOurs(cluster, l.instanceID) {
		return nil
	}
	return cluster
}

// machineOf finds the machine of a plan Secret by the Secret's label, and checks that the machine has this plan.
func (l lookup) machineOf(plan *corev1.Secret) *clusterv1.Machine {
	if plan.Type != rkev1.SecretTypeMachinePlan {
		return nil
	}
	machine := found(l.caches.CAPI.Machine().Cache().Get(plan.Namespace, plan.Labels[rkev1.MachineNameLabel]))
	if machine == nil || !slices.Contains(planstore.WakePlanSecret(machine),
		wakeup.Key{Namespace: plan.Namespace, Name: plan.Name}) ||
		l.cluster(machine.Namespace, machine.Spec.ClusterName) == nil {
		return nil
	}
	return machine
}

// plan returns the plan Secret of a machine.
func (l lookup) plan(machine *clusterv1.Machine) *corev1.Secret {
	for _, key := range planstore.WakePlanSecret(machine) {
		return found(l.caches.Core.Secret().Cache().Get(key.Namespace, key.Name))
	}
	return nil
}

// ticket returns the disruption that the control plane of a machine's cluster has announced.
func (l lookup) ticket(machine *clusterv1.Machine) *rkev1.DisruptionTicket {
	controlPlane := found(l.caches.RKE.RKEControlPlane().Cache().Get(machine.Namespace, machine.Spec.ClusterName))
	if controlPlane == nil {
		return nil
	}
	return controlPlane.Status.Ticket
}
