package unmanaged

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// gather reads caches only.
func (h *handler) gather(request *corev1.Secret) (facts, error) {
	f := facts{request: request, instanceID: h.InstanceID, now: h.Now(), maxWaiting: h.HostsWithoutNode}
	f.host, f.wrong = registration.ParseRequest(request)
	var err error
	if f.clusters, err = h.clusters.GetByIndex(provv1.IndexByCluster, request.Namespace); err != nil {
		return f, fmt.Errorf("find the Cluster of management cluster %s: %w", request.Namespace, err)
	}
	if len(f.clusters) != 1 {
		return f, nil
	}
	name := types.NamespacedName{Namespace: f.clusters[0].Namespace, Name: f.clusters[0].Name}
	if f.capi, err = clients.Optional(h.capiClusters.Get(name.Namespace, name.Name)); err != nil {
		return f, fmt.Errorf("read Cluster API's Cluster %s: %w", name, err)
	}
	if f.tokenName = registration.RequestToken(request); f.tokenName != "" {
		if f.token, err = clients.Optional(h.tokens.Get(request.Namespace, f.tokenName)); err != nil {
			return f, fmt.Errorf("read ClusterRegistrationToken %s/%s: %w", request.Namespace, f.tokenName, err)
		}
	}
	return f, h.gatherMachines(&f, name)
}

func (h *handler) gatherMachines(f *facts, cluster types.NamespacedName) error {
	var err error
	if f.machines, err = h.machines.GetByIndex(indexIdentities, f.host.ID); err != nil {
		return fmt.Errorf("find the Machine of the host: %w", err)
	}
	name := f.host.MachineName()
	if f.named.machine, err = clients.Optional(h.machines.Get(cluster.Namespace, name)); err != nil {
		return fmt.Errorf("read Machine %s/%s: %w", cluster.Namespace, name, err)
	}
	if f.named.bootstrap, err = clients.Optional(h.bootstraps.Get(cluster.Namespace, name)); err != nil {
		return fmt.Errorf("read RKEBootstrap %s/%s: %w", cluster.Namespace, name, err)
	}
	if f.named.custom, err = clients.Optional(h.customMachines.Get(cluster.Namespace, name)); err != nil {
		return fmt.Errorf("read CustomMachine %s/%s: %w", cluster.Namespace, name, err)
	}
	waiting, err := h.machines.GetByIndex(indexWaiting, waitingKey(cluster, f.host.Etcd || f.host.ControlPlane))
	if err != nil {
		return fmt.Errorf("count the hosts of cluster %s without a node: %w", cluster, err)
	}
	f.waiting = len(waiting)
	if f.leaver, err = h.leaverOf(cluster, f.host.Node()); err != nil {
		return err
	}
	f.made = f.named.machine == nil && h.written.Left(made(f.request, "Machine"), f.now) > 0
	f.claimed = h.claims.byAnother(f.host.ID, cluster, f.now)
	return nil
}
