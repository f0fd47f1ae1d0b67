package planner

import (
	"time"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

const (
	// lostAfter is how long a node may be out of reach before the others go on without it.
	lostAfter = 10 * time.Minute
	// deadAfter is the same for a node that was out of reach before its plan was delivered: the plan is not the cause.
	deadAfter = 2 * time.Minute
	// heartbeat is how long a kubelet may be silent before Kubernetes reports its node as lost. The node's last report
	// is older than that.
	heartbeat = 40 * time.Second
)

// isUnreachable reports that the rollout goes on without a worker. Its plan was delivered, and no other plan is due,
// its pool is paused or its plan is kept. Its agent has not reported about the plan. Its node, if it has one, is lost.
// All of this is true for longer than the deadline. An agent that has reported is no such case: the plan may do the
// same to the next node. Servers do not count either, because others depend on their etcd member and API.
func (c *cluster) isUnreachable(m *machine) bool {
	state := &m.Plan.State
	isDue := m.change == nodeplan.ChangeNone || m.keepsPlan || m.PoolPaused
	silent := state.PlanExists && isDue && !state.InSync && state.FailedChecksum != state.Checksum
	if !m.roles.OnlyWorker() || !silent || m.HasNode && m.NodeLostSince.IsZero() {
		return false
	}
	since := m.Plan.DeliveredAt
	if m.NodeLostSince.After(since) {
		since = m.NodeLostSince
	}
	return !m.NodeUnknown && c.isOverdueBy(since, m.patience())
}

// patience is how long an unreachable machine may hold up the others.
func (m *machine) patience() time.Duration {
	if m.HasNode && !m.NodeLostSince.After(m.Plan.DeliveredAt.Add(heartbeat)) {
		return deadAfter
	}
	return lostAfter
}

// hasMissed reports that a deadline has passed that began when a machine's node was lost, or later. Only time in which
// the node could be seen counts. While it cannot be seen, the deadline does not pass, and it starts again afterward.
func (c *cluster) hasMissed(m *machine, since time.Time) bool {
	return !m.NodeUnknown && c.isOverdue(since)
}

// missingSince is when an unreachable machine was last heard of.
func (m *machine) missingSince() string {
	if m.NodeLostSince.IsZero() {
		return stamp(m.Plan.DeliveredAt)
	}
	return stamp(m.NodeLostSince)
}

// isOverdue reports that the deadline that began at since has passed. Otherwise it sets the timer.
func (c *cluster) isOverdue(since time.Time) bool {
	return c.isOverdueBy(since, lostAfter)
}

// isOverdueBy is overdue with a deadline of another length.
func (c *cluster) isOverdueBy(since time.Time, limit time.Duration) bool {
	left := since.Add(limit).Sub(c.s.Now)
	if left > 0 {
		c.wakeAfter(left)
	}
	return left <= 0
}

// stamp formats a time for messages.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
