package planner

import (
	"slices"
	"time"

	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// joinAfter is how long a new member of etcd may take before the next one is joined all the same. It is short, because health checks count
// the time of machines that wait, and etcd itself takes one member at a time in.
const joinAfter = 2 * time.Minute

// stepEtcd lets the other etcd machines join the init node, and changes them one at a time. It also is asked while the init node cannot
// be changed because another member does not work: that one may be waiting for its change here.
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

// joinEtcd delivers the first plan of a machine with etcd, one after the other: etcd has room for one learner, and a second one would fail and
// start again until the first is a member.
func (r *rollOut) joinEtcd(m *machine) finding {
	i := slices.IndexFunc(r.tier.members, func(o *machine) bool { return o != m && r.joiningEtcd(o) })
	if i < 0 {
		return r.send(r.tier, m)
	}
	return finding{msgJoinEtcd + r.tier.members[i].Name, ReasonChangePending}
}

// joiningEtcd reports that a machine has got its first plan a moment ago and is not seen to work with it yet. One that failed holds up nobody,
// nor does one with a time that is still to come, as after a clock was set back.
func (p *pass) joiningEtcd(m *machine) bool {
	state := &m.Plan.State
	joined := !neverApplied(state) && (m.HasNode || m.marks.JoinURL != "" || !slices.Contains(m.unhealthyProbes(), render.ProbeETCD))
	switch {
	case !state.PlanExists:
		return m.sent
	case joined, m.Plan.Malformed != "", m.Skip, state.Failed:
		return false
	}
	return m.Plan.DeliveredAt.Sub(p.s.Now) < joinAfter && !p.overdueBy(m.Plan.DeliveredAt, joinAfter)
}
