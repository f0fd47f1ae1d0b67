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
	"github.com/drover-io/drover/pkg/kube/planstore"
)

// etcdNodeLabel is on nodes with a member of etcd. Distributions set it; a kubelet may not, not even on its own node.
const etcdNodeLabel = "node-role.kubernetes.io/etcd"

// planned tells whether a machine ever got a plan, without which it can have joined nothing. The planner notes on the Machine that
// it sent one; the plan itself is what machines have that were planned by another server before.
func (h *handler) planned(bootstrapName string, machine *clusterv1.Machine) (bool, error) {
	if planstore.ReadMarks(machine).RenderVersion != "" {
		return true, nil
	}
	secret, err := orNil(h.secrets.Get(machine.Namespace, naming.PlanSecret(bootstrapName)))
	return err == nil && secret != nil && len(secret.Data[nodeplan.KeyPlan]) > 0, err
}

// keepsDataElsewhere reports that the server on a machine was told to keep the cluster's data in another datastore, and so may have no member of etcd that
// could say that it has left. Servers that find etcd on their disk stay with it, whatever they are told: only their node tells.
func (h *handler) keepsDataElsewhere(machine *clusterv1.Machine) (bool, error) {
	secret, err := h.planSecret(machine)
	return err == nil && planstore.KeepsDataElsewhere(secret), err
}

// member is what a cluster says of the etcd member of a machine.
type member struct {
	// node is empty when the machine has none.
	node  string
	state bootstrapdata.MemberState
	// otherLeaving is another node that was asked to give up its member and has not, empty when there is none.
	otherLeaving string
	// stay are the nodes with members that nobody has asked to leave.
	stay []string
}

// member looks for the node of a machine, and how far its etcd member is. Of one that may keep its data elsewhere, a node that does not say it has etcd has no member.
func (h *handler) member(machine *clusterv1.Machine, elsewhere bool) (member, error) {
	version, err := h.versionOf(machine)
	if err != nil {
		return member{}, err
	}
	ctx, cancel := context.WithTimeout(h.ctx, downstreamTimeout)
	defer cancel()
	client, err := h.Downstream.Client(ctx, types.NamespacedName{Namespace: machine.Namespace, Name: machine.Spec.ClusterName})
	if err != nil {
		return member{}, fmt.Errorf("reach the cluster: %w", err)
	}
	nodes, err := h.nodesOf(ctx, client, machine)
	if err != nil {
		return member{}, err
	}
	if elsewhere {
		nodes = slices.DeleteFunc(nodes, func(node corev1.Node) bool { return node.Labels[etcdNodeLabel] != rkev1.RoleLabelValue })
	}
	remove, removed := memberAnnotations(version)
	found := memberOf(nodes, remove, removed)
	if found.state != bootstrapdata.MemberPresent {
		return found, nil
	}
	err = h.others(ctx, client, machine, &found, remove, removed)
	return found, err
}

// others looks at the members of the other nodes: which stay, and whether one is leaving.
func (h *handler) others(ctx context.Context, client kubernetes.Interface, machine *clusterv1.Machine, found *member, remove, removed string) error {
	all, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: etcdNodeLabel + "=" + rkev1.RoleLabelValue})
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
		return err // what does not work takes nothing from the quorum, and etcd may let go of nobody else before it
	}
	found.otherLeaving = leaving
	return nil
}

// withEtcd leaves out nodes of machines without etcd: they have the label from another time, and a removal that they were asked for never ends.
// A node without a machine counts: its machine may be gone, or not be known to be its own yet, and its member counts towards the quorum all the same.
func (h *handler) withEtcd(machine *clusterv1.Machine, nodes []corev1.Node) ([]corev1.Node, error) {
	machines, err := h.machines.GetByIndex(indexMachinesByCluster, machine.Namespace+"/"+machine.Spec.ClusterName)
	if err != nil {
		return nil, fmt.Errorf("list machines of the cluster: %w", err)
	}
	without := map[string]bool{}
	for _, other := range machines {
		if !isEtcd(other.Labels) {
			without[other.Status.NodeRef.Name] = true
		}
	}
	return slices.DeleteFunc(nodes, func(node corev1.Node) bool { return without[node.Name] }), nil
}

// nodesOf are the nodes that may be a machine's: the one that Cluster API found, or before it found one, those that say so by
// their label and are no other machine's. The label is the kubelet's to write, so a node may pretend to be the machine:
// then it holds the machine, which can be forced, but no member is forgotten for it.
func (h *handler) nodesOf(ctx context.Context, client kubernetes.Interface, machine *clusterv1.Machine) ([]corev1.Node, error) {
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
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: rkev1.MachineUIDLabel + "=" + string(planstore.UID(machine))})
	if err != nil {
		return nil, fmt.Errorf("list nodes of machine %s: %w", machine.Name, err)
	}
	machines, err := h.machines.GetByIndex(indexMachinesByCluster, machine.Namespace+"/"+machine.Spec.ClusterName)
	if err != nil {
		return nil, fmt.Errorf("list machines of the cluster: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(node corev1.Node) bool {
		return slices.ContainsFunc(machines, func(other *clusterv1.Machine) bool {
			return other.UID != machine.UID && other.Status.NodeRef.Name == node.Name
		})
	}), nil
}

// memberOf chooses from the nodes of a machine the one whose member has still to go, and says how far it is. Nodes that are known to
// have a member come first.
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
