package planner

import (
	"slices"

	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// MemberState is what the etcd member of a machine does, as far as is proven.
type MemberState string

const (
	// MemberAbsent means that the machine has no member yet, or none any more.
	MemberAbsent MemberState = "Absent"
	// MemberHealthy means that the member works. Its node has carried out its plan and is not drained.
	MemberHealthy MemberState = "Healthy"
	// MemberRefused means that the member works, and its node has refused its plan. The node is not being drained: it
	// is not drained at all, or stays drained for the next try.
	MemberRefused MemberState = "Refused"
	// MemberChanging means that the node is drained, works on a plan, or gets one in this pass.
	MemberChanging MemberState = "Changing"
	// MemberDown means that the member is not proven to work, and that nothing is in progress that could change that.
	MemberDown MemberState = "Down"
	// MemberLeaving means that the machine is being deleted, and its member is being removed or does not work.
	MemberLeaving MemberState = "Leaving"
)

// stateOf is the state of the member of a machine.
func (e *etcd) stateOf(m *machine) MemberState {
	switch {
	case !e.hasMember(m):
		return MemberAbsent
	case m.Deleting && e.isLeaving(m):
		return MemberLeaving
	}
	return m.memberState()
}

// memberState is the state of the member of a machine that is not being deleted.
func (m *machine) memberState() MemberState {
	switch {
	case m.etcdStaysUp() && m.Plan.State.InSync && !m.isInDrain():
		return MemberHealthy
	case m.etcdStaysUp() && m.isRefusing() && (!m.isInDrain() || m.Plan.Drain.isDone()):
		return MemberRefused
	case m.isChanging():
		return MemberChanging
	}
	return MemberDown
}

// isChanging reports that a member is being changed, by this pass or an earlier one.
func (m *machine) isChanging() bool {
	return m.Plan != nil && m.hasJoined() && (m.isStarting() || m.isInDrain() || m.isApplying())
}

// hasNothingToLose reports that the etcd member of a machine does not work, and that its node works on no plan.
func (m *machine) hasNothingToLose() bool { return !m.etcdServes() && !m.getsPlan && !m.isApplying() }

// etcdStaysUp reports that the etcd member of a machine works, and that this pass begins nothing with the machine.
func (m *machine) etcdStaysUp() bool { return m.etcdServes() && !m.isStarting() }

// etcdServes reports that the etcd member of a machine works: its plan Secret says so, and its node is not lost.
func (m *machine) etcdServes() bool { return m.NodeLostSince.IsZero() && EtcdServes(m.Plan) }

// EtcdServes reports that the last report of a machine proves that its etcd member works. A plan that the node refuses,
// because etcd cannot do without it, does not change that. An applied plan of a restore proves the opposite: etcd is
// down. The code that removes members asks the same question (planstore.Member). Otherwise a change could wait for
// a removal that waits for the change.
func EtcdServes(secret *PlanSecret) bool {
	if secret == nil || secret.stopped() || secret.restored() {
		return false
	}
	switch stateOf(secret) {
	case StateHealthy:
		return true
	case StateRefusing, StateRefused:
		return len(secret.unhealthyProbes()) == 0
	default:
		return false
	}
}

// reportsEtcdDown reports that the node itself reports its etcd member as down, so a restart loses nothing. Another
// failing part, or a missing report, is no evidence.
func (m *machine) reportsEtcdDown() bool {
	status, told := m.Plan.State.ProbeStatuses[render.ProbeETCD]
	return told && !status.Healthy
}

// hasMember reports that a machine may be a member of etcd, including a machine that is held until it leaves etcd.
func (e *etcd) hasMember(m *machine) bool {
	return m.roles.ETCD && (!m.Deleting || m.Held) && e.mayBeMember(m)
}

// mayBeMember reports that a machine may have an etcd member. A machine that got its first plan and never reported has
// none after a while. A machine that a restore has stopped is not in the new cluster until it starts again.
func (e *etcd) mayBeMember(m *machine) bool {
	switch {
	case m.Plan == nil:
		return m.gotPlan()
	case m.stopped():
		return m.getsPlan
	case m.getsPlan || m.hasJoined() || m.Plan.State.FailureCount > 0 || m.Plan.Malformed != "":
		return true
	}
	return m.Plan.State.PlanExists && !e.isOverdue(m.Plan.DeliveredAt)
}

// isBroken reports that a machine's node is lost, that its plan Secret is unreadable, or that its plan failed or has
// not worked for a while. The code that removes members must judge the same way (planstore.Member), or both wait for
// each other.
func (e *etcd) isBroken(m *machine) bool {
	if !m.NodeLostSince.IsZero() {
		return true
	}
	switch m.state {
	case StateUnreadable, StateFailed, StateRefused:
		return true
	case StateApplying, StateRefusing, StateUnhealthy:
		return e.isOverdue(m.Plan.DeliveredAt)
	default:
		return false
	}
}

// isLeaving reports that the member of a deleting machine is being removed, or does not work.
func (e *etcd) isLeaving(m *machine) bool {
	return e.isBeingRemoved(m) || m.Plan != nil && !m.Plan.State.Works()
}

// isBeingRemoved reports that the etcd member of a deleting machine is being removed: the machine is held, and either
// no live machine is joined to it or its member does not work. The removal waits only until no machine is joined to a
// working member. Until the removal is done, the member counts toward the quorum. Every restart that moves a joined
// machine away would break that quorum.
func (e *etcd) isBeingRemoved(m *machine) bool {
	return m.Held && (e.isBroken(m) || !slices.ContainsFunc(e.machines, func(o *machine) bool {
		return !o.Deleting && m.Marks.JoinURL != "" && o.Marks.JoinedTo == m.Marks.JoinURL
	}))
}

// isUnseen reports that a rollout waits for a hidden machine. It waits as long as for a lost node, and not for machines
// that an operator left out. After that, the rollout may be what repairs the connection, and the node's own proof has
// to suffice.
func (e *etcd) isUnseen(o *machine) bool {
	return e.isHidden(o) && !o.Skip && (o.NodeUnknownSince.IsZero() || !e.isOverdue(o.NodeUnknownSince))
}

// isHidden reports that the node of a machine cannot be seen although an API server of the cluster works, so the
// machine may be off. When no API server works, this rollout may be what repairs it.
func (e *etcd) isHidden(o *machine) bool {
	return o.NodeUnknown && slices.ContainsFunc(e.machines, func(c *machine) bool {
		return c.roles.ControlPlane && !c.Deleting && (c.Plan.State.InSync || c.hasRefused()) &&
			!slices.Contains(c.unhealthyProbes(), render.ProbeAPIServer)
	})
}
