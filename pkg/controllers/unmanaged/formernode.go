package unmanaged

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// leaverOf reports whether a Machine whose node has this name is being deleted. Cluster API deletes that node by name.
func (h *handler) leaverOf(cluster types.NamespacedName, node string) (bool, error) {
	if node == "" {
		return false, nil
	}
	machines, err := planstore.MachinesOf(h.machines, cluster.Namespace, cluster.Name)
	if err != nil {
		return false, err
	}
	for _, machine := range machines {
		if machine.DeletionTimestamp != nil && machine.Status.NodeRef.Name == node {
			return true, nil
		}
	}
	return false, nil
}

// removeFormerNode deletes the node of the machine that a new host was before. A host that was away when its Machine
// was deleted registers that node again as soon as it is back. The node would keep the label of the former machine, and
// the distribution may refuse the password of the new one. It must be gone before the host gets a plan.
//
// A host must not wait for a cluster that does not answer, because it may be the one that repairs the cluster.
func (h *handler) removeFormerNode(cluster types.NamespacedName, host *registration.Host) {
	name := host.Node()
	if name == "" || h.Downstream == nil {
		return
	}
	log := h.Log.WithField("namespace", cluster.Namespace).WithField("cluster", cluster.Name).WithField("node", name)
	removed, err := h.deleteFormerNode(cluster, name)
	switch {
	case errors.Is(err, proxy.ErrNotAvailable): // the cluster does not exist yet
	case err != nil:
		log.WithError(err).Info("Cannot check whether a new host still has the node of a former machine")
	case removed:
		log.Info("Deleted the node of a former machine, because its host registered again")
	}
}

func (h *handler) deleteFormerNode(cluster types.NamespacedName, name string) (bool, error) {
	machines, err := planstore.MachinesOf(h.machines, cluster.Namespace, cluster.Name)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(h.ctx, downstreamTimeout)
	defer cancel()
	nodes, node, err := h.readNode(ctx, cluster, name)
	if err != nil || node == nil || !isFormer(node, machines) {
		return false, err
	}
	err = nodes.Delete(ctx, name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(node.UID))})
	if err != nil && !isStale(err) {
		return false, fmt.Errorf("delete node %s: %w", name, err)
	}
	return err == nil, nil
}

// readNode asks a cluster for a node, which is nil if the cluster has none of that name.
func (h *handler) readNode(ctx context.Context, cluster types.NamespacedName, name string) (typedcorev1.NodeInterface,
	*corev1.Node, error) {
	client, err := h.Downstream.Client(ctx, cluster)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the cluster: %w", err)
	}
	nodes := client.CoreV1().Nodes()
	node, err := clients.Optional(nodes.Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return nil, nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return nodes, node, nil
}

// isFormer reports that a node names a machine, and that this machine no longer exists in the cluster.
func isFormer(node metav1.Object, machines []*clusterv1.Machine) bool {
	uid := types.UID(node.GetLabels()[rkev1.MachineUIDLabel])
	if uid == "" {
		return false
	}
	for _, machine := range machines {
		if planstore.UID(machine) == uid || machine.Status.NodeRef.Name == node.GetName() {
			return false
		}
	}
	return true
}
