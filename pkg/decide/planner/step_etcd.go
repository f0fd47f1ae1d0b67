package planner

import (
	"slices"
	"time"

	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// joinAfter is how long a new etcd member may take before the next one joins anyway. It is short, because health checks
// count the time of waiting machines, and etcd itself accepts one member at a time.
const joinAfter = 2 * time.Minute

// stepEtcd lets the other etcd machines join the init node, and changes them one at a time. It also runs while another
// member that does not work blocks the init node: that member may wait for its change here.
func stepEtcd(p *pass) verdict {
	if wait := p.tier(p.etcdTier()); wait != nil {
		return stopFor(wait)
	}
	if p.blocked != nil {
		return stopFor(p.blocked)
	}
	return goOn("all etcd machines are in order")
}

func (p *pass) etcdTier() tier {
	return tier{
		name: "etcd", ticket: ticketEtcd, ticketFirsts: true,
		members: p.collect(isEtcd, isLive, notInit),
		join:    p.joinInit,
	}
}

func notInit(m *machine) bool { return !m.marks.InitNode }

// joinInit makes a server join the init node.
func (p *pass) joinInit(*machine) (joinURL, problem string) { return p.init.marks.JoinURL, "" }

// joinEtcd delivers the first plans of machines with etcd one after the other. Etcd has room for one learner. A second
// one would fail and restart until the first is a member.
func (r *rollOut) joinEtcd(m *machine) finding {
	i := slices.IndexFunc(r.tier.members, func(o *machine) bool { return o != m && r.etcd.isJoining(o) })
	if i < 0 {
		return r.send(m)
	}
	return finding{msgJoinEtcd + r.tier.members[i].Name, ReasonChangePending}
}

// isJoining reports that a machine got its first plan a moment ago, and is not seen to work with it yet. A failed
// machine does not hold up others. A delivery time in the future, as after a clock was set back, does not either.
func (e *etcd) isJoining(m *machine) bool {
	state := &m.Plan.State
	joined := !neverApplied(state) &&
		(m.HasNode || m.marks.JoinURL != "" || !slices.Contains(m.unhealthyProbes(), render.ProbeETCD))
	switch {
	case !state.PlanExists:
		return m.getsPlan
	case joined, m.Plan.Malformed != "", m.Skip, state.Failed:
		return false
	}
	return m.Plan.DeliveredAt.Sub(e.s.Now) < joinAfter && !e.isOverdueBy(m.Plan.DeliveredAt, joinAfter)
}
