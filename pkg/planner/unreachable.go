package planner

import (
	"time"

	"github.com/drover-io/drover/pkg/nodeplan"
)

// lostAfter is how long a node may be out of reach before the others go on without it.
const lostAfter = 10 * time.Minute

// unreachable reports that the roll-out goes on without a worker: its plan was delivered, no other one can be while its pool is paused,
// its agent has said nothing about it, and its node, if it has one, is lost, all for longer than the deadline. An agent that has reported is no case for this: what the plan
// did to its node may happen to the next one. Nor is a server, whose etcd member and API are others' business too.
func (p *pass) unreachable(m *machine) bool {
	state := &m.Plan.State
	silent := state.PlanExists && (m.change == nodeplan.ChangeNone || m.PoolPaused) && !state.InSync && state.FailedChecksum != state.Checksum
	if !m.roles.OnlyWorker() || !silent || m.HasNode && m.NodeLostSince.IsZero() {
		return false
	}
	since := m.Plan.DeliveredAt
	if m.NodeLostSince.After(since) {
		since = m.NodeLostSince
	}
	return p.overdue(since)
}

// missingSince is since when a machine that is unreachable was last heard of.
func (m *machine) missingSince() string {
	if m.NodeLostSince.IsZero() {
		return stamp(m.Plan.DeliveredAt)
	}
	return stamp(m.NodeLostSince)
}

// overdue reports that the deadline that began then has passed; otherwise it sets the timer.
func (p *pass) overdue(since time.Time) bool {
	left := since.Add(lostAfter).Sub(p.s.Now)
	if left > 0 {
		p.wakeAfter(left)
	}
	return left <= 0
}

// stamp is a time in messages.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
