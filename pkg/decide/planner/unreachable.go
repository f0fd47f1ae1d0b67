package planner

import (
	"time"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

const (
	// lostAfter is how long a node may be out of reach before the others go on without it.
	lostAfter = 10 * time.Minute
	// deadAfter is the same for a node that was not heard of any more when its plan was delivered: the plan has nothing to do with that.
	deadAfter = 2 * time.Minute
	// heartbeat is for how long a kubelet may be silent before Kubernetes calls its node lost. The node was heard of last before that.
	heartbeat = 40 * time.Second
)

// unreachable reports that the roll-out goes on without a worker: its plan was delivered, no other one can be, or is while its pool is paused or its plan is kept,
// its agent has said nothing about it, and its node, if it has one, is lost, all for longer than the deadline. An agent that has reported is no case for this: what the plan
// did to its node may happen to the next one. Nor is a server, whose etcd member and API are others' business too.
func (p *pass) unreachable(m *machine) bool {
	state := &m.Plan.State
	silent := state.PlanExists && (m.change == nodeplan.ChangeNone || m.kept || m.PoolPaused) && !state.InSync && state.FailedChecksum != state.Checksum
	if !m.roles.OnlyWorker() || !silent || m.HasNode && m.NodeLostSince.IsZero() {
		return false
	}
	since := m.Plan.DeliveredAt
	if m.NodeLostSince.After(since) {
		since = m.NodeLostSince
	}
	return !m.NodeUnknown && p.overdueBy(since, m.patience())
}

// patience is how long a machine that is unreachable may hold up the others.
func (m *machine) patience() time.Duration {
	if m.HasNode && !m.NodeLostSince.After(m.Plan.DeliveredAt.Add(heartbeat)) {
		return deadAfter
	}
	return lostAfter
}

// missed reports that a deadline has passed which began when a machine's node was lost, or later. Only time counts in which somebody could look:
// while nobody can, it does not pass, and it begins anew afterwards.
func (p *pass) missed(m *machine, since time.Time) bool { return !m.NodeUnknown && p.overdue(since) }

// missingSince is since when a machine that is unreachable was last heard of.
func (m *machine) missingSince() string {
	if m.NodeLostSince.IsZero() {
		return stamp(m.Plan.DeliveredAt)
	}
	return stamp(m.NodeLostSince)
}

// overdue reports that the deadline that began then has passed; otherwise it sets the timer.
func (p *pass) overdue(since time.Time) bool {
	return p.overdueBy(since, lostAfter)
}

// overdueBy is overdue for a deadline of another length.
func (p *pass) overdueBy(since time.Time, limit time.Duration) bool {
	left := since.Add(limit).Sub(p.s.Now)
	if left > 0 {
		p.wakeAfter(left)
	}
	return left <= 0
}

// stamp is a time in messages.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
