package bootstrap

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// etcdNodeLabel is on nodes with an etcd member. Distributions set it; a kubelet may not, not even on its own node.
const etcdNodeLabel = "node-role.kubernetes.io/etcd"

// planned reports whether a machine ever got a plan. Without a plan it cannot have joined. The planner records each
// delivery on the Machine. A machine that another server planned earlier has only the plan itself.
func (h *handler) planned(bootstrapName string, machine *clusterv1.Machine) (bool, error) {
	if planstore.ReadMarks(machine).RenderVersion != "" {
		return true, nil
	}
	secret, err := clients.Optional(h.secrets.Get(machine.Namespace, naming.PlanSecret(bootstrapName)))
	return err == nil && secret != nil && len(secret.Data[nodeplan.KeyPlan]) > 0, err
}

// keepsDataElsewhere reports that the machine's server is configured to use another datastore. It may have no etcd
// member that could confirm its removal. A server that finds etcd data on its disk keeps using etcd, whatever its
// configuration, so only its node shows that.
func (h *handler) keepsDataElsewhere(machine *clusterv1.Machine) (bool, error) {
	secret, err := h.planSecret(machine)
	return err == nil && planstore.KeepsDataElsewhere(secret), err
}

// member is what a cluster shows about a machine's etcd member.
type member struct {
	// node is empty if the machine has none.
	node  string
	state bootstrapdata.MemberState
	// otherLeaving is another node that was asked to leave etcd and has not left yet, "" without one.
	otherLeaving string
	// stay holds the nodes with members that are not asked to leave.
	stay []string
}

// member finds the node of a machine and the state of its etcd member. With elsewhere, a node without the etcd label
// has no member.
func (h *handler) member(machine *clusterv1.Machine, elsewhere bool) (member, error) {
	version, err := h.versionOf(machine)
	if err != nil {
		return member{}, err
	}
	ctx, cancel := context.WithTimeout(h.ctx, downstreamTimeout)
	defer cancel()
	client, err := h.Downstream.Client(ctx, types.NamespacedName{Namespace: machine.Namespace,
		Name: machine.Spec.ClusterName})
	if err != nil {
		return member{}, fmt.Errorf("reach the cluster: %w", err)
	}
	nodes, err := h.nodesOf(ctx, client, machine)
	if err != nil {
		return member{}, err
	}
	if elsewhere {
		nodes = slices.DeleteFunc(nodes, func(node corev1.Node) bool {
			return node.Labels[etcdNodeLabel] != rkev1.RoleLabelValue
		})
	}
	remove, removed := memberAnnotations(version)
	found := memberOf(nodes, remove, removed)
	if found.state != bootstrapdata.MemberPresent {
		return found, nil
	}
	err = h.others(ctx, client, machine, &found, remove, removed)
	return found, err
}

// others reads the members of the other nodes: which stay, and whether one is leaving.
func (h *handler) others(ctx context.Context, client kubernetes.Interface, machine *clusterv1.Machine, found *member,
	remove, removed string) error {
	all, err := client.CoreV1().Nodes().List(ctx,
		metav1.ListOptions{LabelSelector: etcdNodeLabel + "=" + rkev1.RoleLabelValue})
	if err != nil {
		return fmt.Errorf("list nodes with etcd: %w", err)
	}
	if all.Items, err = h.withEtcd(machine, all.Items); err != nil {
		return err
	}
	leaving := ""
	for i := range all.Items {
		switch node := &all.Items[i]; {
		case node.Name == found.node, node.Annotations[removed] != "":
		case node.Annotations[remove] == "true":
			leaving = node.Name
		default:
			found.stay = append(found.stay, node.Name)
		}
	}
	if broken, err := h.broken(machine); err != nil || broken {
		return err // a broken member does not add to the quorum, and etcd may refuse to remove any other before it
	}
	found.otherLeaving = leaving
	return nil
}

// withEtcd omits nodes of machines without etcd. They have an old label, and a removal that was requested of them never
// ends. A node without a Machine stays. Its Machine may be deleted or not yet matched, and its member still counts
// towards the quorum.
func (h *handler) withEtcd(machine *clusterv1.Machine, nodes []corev1.Node) ([]corev1.Node, error) {
	machines, err := planstore.MachinesOf(h.machines, machine.Namespace, machine.Spec.ClusterName)
	if err != nil {
		return nil, err
	}
	without := map[string]bool{}
	for _, other := range machines {
		if !isEtcd(other.Labels) {
			without[other.Status.NodeRef.Name] = true
		}
	}
	return slices.DeleteFunc(nodes, func(node corev1.Node) bool { return without[node.Name] }), nil
}

// nodesOf returns the nodes that may belong to a machine. It prefers the node that Cluster API found. Otherwise it
// returns nodes with the machine's UID label that belong to no other machine. The kubelet can write that label, so a
// node may impersonate the machine. That only holds the machine, which a user can force, and loses no member.
func (h *handler) nodesOf(ctx context.Context, client kubernetes.Interface, machine *clusterv1.Machine) ([]corev1.Node,
	error) {
	if name := machine.Status.NodeRef.Name; name != "" {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read node %s: %w", name, err)
		}
		return []corev1.Node{*node}, nil
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: rkev1.MachineUIDLabel + "=" +
		string(planstore.UID(machine))})
	if err != nil {
		return nil, fmt.Errorf("list nodes of machine %s: %w", machine.Name, err)
	}
	machines, err := planstore.MachinesOf(h.machines, machine.Namespace, machine.Spec.ClusterName)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(node corev1.Node) bool {
		return slices.ContainsFunc(machines, func(other *clusterv1.Machine) bool {
			return other.UID != machine.UID && other.Status.NodeRef.Name == node.Name
		})
	}), nil
}

// memberOf selects the node whose member must still leave, and returns its state. Nodes that are known to have a member
// come first.
func memberOf(nodes []corev1.Node, remove, removed string) member {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b corev1.Node) int {
		return cmp.Or(cmp.Compare(b.Labels[etcdNodeLabel], a.Labels[etcdNodeLabel]), cmp.Compare(a.Name, b.Name))
	})
	for _, node := range nodes {
		switch {
		case node.Annotations[removed] != "":
		case node.Annotations[remove] == "true":
			return member{node: node.Name, state: bootstrapdata.MemberLeaving}
		default:
			return member{node: node.Name, state: bootstrapdata.MemberPresent}
		}
	}
	return member{state: bootstrapdata.MemberGone}
}
