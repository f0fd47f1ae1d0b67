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

// APIServerAnswers reports whether an API server of a cluster answers, as the planner sees it. machines are all
// Machines of the cluster, and secretOf returns the plan secret of one, nil if there is none.
func APIServerAnswers(cluster *clusterv1.Cluster, machines []*clusterv1.Machine,
	secretOf func(*clusterv1.Machine) (*corev1.Secret, error)) (bool, error) {
	for _, machine := range machines {
		if machine.DeletionTimestamp != nil || !NodeLostSince(machine).IsZero() || NodeUnknown(machine, cluster) {
			continue
		}
		secret, err := secretOf(machine)
		if err != nil {
			return false, err
		}
		if secret != nil && decode(secret).ServesAPI() {
			return true, nil
		}
	}
	return false, nil
}

// Member is what is known about the etcd member of a machine. The planner judges by the same rules.
type Member struct {
	machine *clusterv1.Machine
	plan    *planner.PlanSecret
}

// MemberOf reads what is known about the member of a machine. secret is its plan secret, nil if there is none. answers
// says whether an API server of the cluster answers, see APIServerAnswers. It is called only if that matters.
func MemberOf(machine *clusterv1.Machine, secret *corev1.Secret, answers func() (bool, error)) (Member, error) {
	if secret == nil {
		return Member{machine, nil}, nil
	}
	plan := decode(secret)
	if plan.MayIdle(machine.Labels) {
		if known, err := answers(); err != nil || known {
			return Member{machine, plan}, err
		}
		plan = plan.WithoutIdleKubelet()
	}
	return Member{machine, plan}, nil
}

// Broken reports whether the machine's node is lost, or its plan failed or has not worked for a while. A node can
// report this about itself only, and cannot make another one look broken.
func (m Member) Broken(now time.Time, after time.Duration) bool {
	if !NodeLostSince(m.machine).IsZero() {
		return true
	}
	if m.plan == nil {
		return false
	}
	state := &m.plan.State
	late := state.Failed || now.Sub(m.plan.DeliveredAt) >= after
	return m.plan.Malformed != "" || state.PlanExists && !state.Works() && late
}

// Restarting reports whether a plan was delivered within that time and does not work yet, as while it restarts a node.
func (m Member) Restarting(now time.Time, within time.Duration) bool {
	return m.plan != nil && m.plan.State.PlanExists && !m.plan.State.Works() && now.Sub(m.plan.DeliveredAt) < within
}

// EtcdServes reports whether the etcd member is proven to work.
func (m Member) EtcdServes() bool {
	return m.plan != nil && NodeLostSince(m.machine).IsZero() && planner.EtcdServes(m.plan)
}

// KeepsDataElsewhere reports whether a machine uses another datastore than etcd, and has no member. secret is its plan
// secret, nil if there is none.
func KeepsDataElsewhere(secret *corev1.Secret) bool {
	return secret != nil && planner.KeepsDataElsewhere(decode(secret))
}
