package planstore

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// NodeLostSince returns since when a machine's node is silent or deleted, zero if it is not. A node that reports itself
// as not ready is not lost. If Cluster API cannot see the node, nothing is known.
func NodeLostSince(machine *clusterv1.Machine) time.Time {
	c := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineNodeReadyCondition)
	if c == nil || c.Status == metav1.ConditionTrue {
		return time.Time{}
	}
	switch c.Reason {
	case clusterv1.MachineNodeReadyUnknownReason, clusterv1.MachineNodeDeletedReason,
		clusterv1.MachineNodeDoesNotExistReason:
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// NodeUnknown reports whether Cluster API cannot see a machine's node now. The node's conditions are then the last
// known ones.
func NodeUnknown(machine *clusterv1.Machine, cluster *clusterv1.Cluster) bool {
	if machine.Status.NodeRef.Name == "" {
		return false // there is no node, with or without a connection
	}
	if _, seen := SeenSince(cluster); !seen {
		return true
	}
	c := conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineNodeReadyCondition)
	return c != nil && (c.Reason == clusterv1.MachineNodeConnectionDownReason ||
		c.Reason == clusterv1.MachineNodeInternalErrorReason)
}

// NodeUnknownSince returns since when NodeUnknown holds, zero if it does not.
func NodeUnknownSince(machine *clusterv1.Machine, cluster *clusterv1.Cluster) time.Time {
	if !NodeUnknown(machine, cluster) {
		return time.Time{}
	}
	if since, seen := SeenSince(cluster); !seen {
		return since
	}
	return conditions.GetMeta(machine.Status.Conditions, clusterv1.MachineNodeReadyCondition).LastTransitionTime.Time
}

// SeenSince returns since when Cluster API is continuously connected to a cluster. seen is false while it is not
// connected. A core without that condition counts as always connected.
func SeenSince(cluster *clusterv1.Cluster) (since time.Time, seen bool) {
	c := conditions.GetMeta(cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition)
	if c == nil {
		return time.Time{}, true
	}
	return c.LastTransitionTime.Time, c.Status == metav1.ConditionTrue
}

// NodeMissedSince is NodeLostSince without the time in which Cluster API could not see the node. A condition keeps its
// time over a connection break, and its node may have been lost only just now.
func NodeMissedSince(machine *clusterv1.Machine, cluster *clusterv1.Cluster) time.Time {
	lost := NodeLostSince(machine)
	if since, seen := SeenSince(cluster); seen && !lost.IsZero() && since.After(lost) {
		return since
	}
	return lost
}

// Broken reports whether a machine's node is lost, or its plan failed or has not worked for a while. The planner uses
// the same rule. A node can report this about itself only, and cannot make another one look broken. secret is its plan
// secret, nil if there is none.
func Broken(machine *clusterv1.Machine, secret *corev1.Secret, now time.Time, after time.Duration) bool {
	if !NodeLostSince(machine).IsZero() {
		return true
	}
	if secret == nil {
		return false
	}
	plan := decode(secret)
	late := plan.State.Failed || now.Sub(plan.DeliveredAt) >= after
	return plan.Malformed != "" || plan.State.PlanExists && !plan.State.Works() && late
}

// Restarting reports whether a plan was delivered within that time and does not work yet, as while it restarts a node.
func Restarting(secret *corev1.Secret, now time.Time, within time.Duration) bool {
	plan := decode(secret)
	return plan.State.PlanExists && !plan.State.Works() && now.Sub(plan.DeliveredAt) < within
}

// EtcdServes reports whether the etcd member of a machine is proven to work, as the planner sees it. secret is its plan
// secret, nil if there is none.
func EtcdServes(machine *clusterv1.Machine, secret *corev1.Secret) bool {
	return secret != nil && NodeLostSince(machine).IsZero() && planner.EtcdServes(decode(secret))
}

// KeepsDataElsewhere reports whether a machine uses another datastore than etcd, and has no member. secret is its plan
// secret, nil if there is none.
func KeepsDataElsewhere(secret *corev1.Secret) bool {
	return secret != nil && planner.KeepsDataElsewhere(decode(secret))
}
