package bootstrap

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// snapshot holds the facts about one machine.
type snapshot struct {
	bootstrap *rkev1.RKEBootstrap
	machine   *clusterv1.Machine
	cluster   *clusterv1.Cluster
	// controlPlane is nil if the cluster has no RKEControlPlane, or if the machine is being deleted before it got its
	// data. The machine then gets no identity.
	controlPlane *rkev1.RKEControlPlane
	// plan, token and data are the machine's Secrets, nil if they do not exist; account is the token's service account.
	plan, token, data *corev1.Secret
	account           *corev1.ServiceAccount
}

// gather reads caches only. It returns false while an object is missing whose event requeues the RKEBootstrap.
func (h *handler) gather(bootstrap *rkev1.RKEBootstrap) (snapshot, bool, error) {
	s := snapshot{bootstrap: bootstrap}
	var err error
	if s.machine, err = h.machineOf(bootstrap); err != nil || s.machine == nil {
		return s, false, err
	}
	if s.cluster, err = clients.Optional(h.capiClusters.Get(bootstrap.Namespace,
		s.machine.Spec.ClusterName)); err != nil || s.cluster == nil {
		return s, false, err
	}
	if ours, err := h.ours(bootstrap.Namespace, s.cluster.Name); err != nil || !ours {
		return s, false, err
	}
	provisioned := s.cluster.Status.Initialization.InfrastructureProvisioned
	if topology.IsPaused(s.cluster, bootstrap) || provisioned == nil || !*provisioned {
		return s, false, nil
	}
	if s.controlPlane, err = h.controlPlaneOf(s.cluster); err != nil {
		return s, false, err
	}
	return s, true, h.gatherObjects(&s)
}

func (h *handler) gatherObjects(s *snapshot) error {
	names := namesOf(s.bootstrap.Name)
	var err error
	for _, secret := range []struct {
		into **corev1.Secret
		name string
	}{{&s.plan, names.plan}, {&s.token, names.token}, {&s.data, names.bootstrap}} {
		if *secret.into, err = clients.Optional(h.secrets.Get(s.bootstrap.Namespace, secret.name)); err != nil {
			return err
		}
	}
	if s.machine.DeletionTimestamp != nil && s.data == nil {
		s.controlPlane = nil
	}
	s.account, err = clients.Optional(h.serviceAccounts.Get(s.bootstrap.Namespace, names.bootstrap))
	return err
}

// machineOf returns the Machine that owns a bootstrap object, nil if there is none yet. It also accepts a reference
// without the controller flag, because not every version of Cluster API sets it.
func (h *handler) machineOf(bootstrap *rkev1.RKEBootstrap) (*clusterv1.Machine, error) {
	name := topology.CAPIOwner(bootstrap.OwnerReferences, "Machine")
	if name == "" {
		return nil, nil
	}
	return clients.Optional(h.machines.Get(bootstrap.Namespace, name))
}

func (h *handler) controlPlaneOf(cluster *clusterv1.Cluster) (*rkev1.RKEControlPlane, error) {
	ref := cluster.Spec.ControlPlaneRef
	if !ref.IsDefined() || ref.Kind != "RKEControlPlane" {
		return nil, nil
	}
	return clients.Optional(h.controlPlanes.Get(cluster.Namespace, ref.Name))
}

// clusterOf returns the name of a bootstrap object's cluster from the best source. machine may be nil.
func clusterOf(bootstrap *rkev1.RKEBootstrap, machine *clusterv1.Machine) string {
	if machine != nil {
		return machine.Spec.ClusterName
	}
	return cmp.Or(bootstrap.Labels[clusterv1.ClusterNameLabel], bootstrap.Spec.ClusterName)
}

// ours reports whether the cluster belongs to this instance. A cluster without a provisioning Cluster belongs to every
// instance.
func (h *handler) ours(namespace, cluster string) (bool, error) {
	provisioning, err := clients.Optional(h.clusters.Get(namespace, cluster))
	return err == nil && (provisioning == nil || topology.IsOurs(provisioning, h.InstanceID)), err
}
