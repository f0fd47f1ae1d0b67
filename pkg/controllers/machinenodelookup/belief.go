package machinenodelookup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// reported reports whether the agent of a machine has carried out its plan, or tried to. Only the plan creates a node
// with the machine's label, so an earlier node is an impostor. The report is in the machine's own plan Secret, which no
// other machine can write. A failed plan counts, because what it installed may still run.
func (h *handler) reported(bootstrap *rkev1.RKEBootstrap) (bool, error) {
	name := naming.PlanSecret(bootstrap.Name)
	secret, err := h.secrets.Get(bootstrap.Namespace, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read plan Secret %s/%s: %w", bootstrap.Namespace, name, err)
	}
	return len(secret.Data[nodeplan.KeyAppliedChecksum]) > 0 || len(secret.Data[nodeplan.KeyFailedChecksum]) > 0, nil
}

// belongsToOther reports whether a node provably belongs to another machine of the cluster, whatever its label says.
// Cluster API knows it as that machine's node, it has the name of that machine's node, or it is no server while the
// machine is one. A kubelet can neither rename its node nor make it a server.
func (h *handler) belongsToOther(cluster types.NamespacedName, machine types.UID, node *corev1.Node) bool {
	machines, err := planstore.MachinesOf(h.machines, cluster.Namespace, cluster.Name)
	if err != nil {
		return true // the index is registered with the controller
	}
	own, others := false, false
	for _, m := range machines {
		named := slices.Contains(nodeNames(m), node.Name)
		switch {
		case planstore.UID(m) == machine && isServer(m) && !servesOn(node):
			return true
		case planstore.UID(m) == machine:
			own = named
		case m.Status.NodeRef.Name == node.Name, m.Spec.ProviderID != "" && m.Spec.ProviderID == node.Spec.ProviderID:
			return true
		case m.DeletionTimestamp == nil:
			others = others || named
		}
	}
	return others && !own
}

func isServer(machine *clusterv1.Machine) bool {
	return machine.Labels[rkev1.EtcdRoleLabel] == rkev1.RoleLabelValue ||
		machine.Labels[rkev1.ControlPlaneRoleLabel] == rkev1.RoleLabelValue
}

// servesOn reports whether the distribution's server process runs on a node. That process labels the node. K3s and RKE2
// enable an admission plugin that refuses labels with this prefix from kubelets.
func servesOn(node *corev1.Node) bool {
	_, etcd := node.Labels["node-role.kubernetes.io/etcd"]
	_, controlPlane := node.Labels["node-role.kubernetes.io/control-plane"]
	return etcd || controlPlane
}

// nodeNames returns the predictable names of a machine's node: the name that the user chose, or the host name from its
// driver. Other names, such as those from a cloud, are unpredictable and prove nothing.
func nodeNames(machine *clusterv1.Machine) []string {
	if chosen := machine.Labels[rkev1.NodeNameLabel]; chosen != "" {
		return []string{strings.ToLower(chosen)}
	}
	ref := machine.Spec.InfrastructureRef
	if ref.APIGroup != driverschema.MachineGroup || ref.Name == "" {
		return nil
	}
	// An invalid limit means no limit.
	limit, _ := strconv.Atoi(machine.Annotations[rkev1.HostnameLengthLimitAnnotation])
	return []string{naming.Hostname(limit, ref.Name)}
}
