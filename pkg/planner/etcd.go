package planner

import "slices"

// etcdInTheWay names the machines because of which the etcd member of a machine is not restarted now. All others have to be proven
// healthy, by their probes under the plan they have, so that etcd keeps its quorum without this one. Machines that an operator
// left out need not be, as long as the others are a majority of all, or this one does not work anyway.
func (p *pass) etcdInTheWay(m *machine) []note {
	if !m.roles.ETCD {
		return nil
	}
	var inTheWay, skipped []note
	members, healthy := p.otherMembers(m), 0
	for _, o := range members {
		switch p.standing(m, o) {
		case memberHealthy:
			healthy++
		case memberSkipped:
			skipped = append(skipped, note{name: o.Name})
		case memberInTheWay:
			inTheWay = append(inTheWay, note{name: o.Name})
		case memberBroken:
		}
	}
	if m.etcdHealthy() && healthy <= (len(members)+1)/2 {
		inTheWay = append(inTheWay, skipped...)
		if len(members) == 1 {
			inTheWay = append(inTheWay, p.coming()...)
		}
	}
	return inTheWay
}

// otherMembers are the other machines that may be members of etcd, with those that are held until they have left it.
func (p *pass) otherMembers(m *machine) []*machine {
	return slices.DeleteFunc(slices.Concat(p.machines, p.unregistered), func(o *machine) bool {
		return o == m || !o.roles.ETCD || o.Deleting && !o.Held || !p.inEtcd(o)
	})
}

// standing is what another member of etcd means for the restart of one.
type standing int

const (
	memberHealthy  standing = iota // it works and stays
	memberBroken                   // it does not work, and that holds up nobody
	memberSkipped                  // it does not work, and an operator has left it out
	memberInTheWay                 // it has to work, or to be gone, first
)

func (p *pass) standing(m, o *machine) standing {
	switch {
	case o.Deleting:
		return p.standingOfLeaver(m, o)
	case o.etcdHealthy():
		return memberHealthy
	case !m.inEtcdBefore() && !o.changing():
		return memberBroken // m has never been a member: others that do not work are no reason to leave it broken too
	case o.Skip:
		return memberSkipped
	}
	return memberInTheWay
}

// standingOfLeaver is standing for a member whose machine is being deleted.
func (p *pass) standingOfLeaver(m, o *machine) standing {
	works := o.Plan != nil && o.Plan.State.Works()
	switch {
	case m.etcdHealthy() && (p.leaving(o) || o.Plan != nil && !works):
		return memberInTheWay // one leaves or one restarts, never both; one that does not work may be at its restart
	case works && !p.broken(o):
		return memberHealthy
	}
	return memberBroken
}

// coming are machines that were just made to be members of etcd. Of two members none can be restarted without an outage, of three each can.
func (p *pass) coming() []note {
	var out []note
	for _, o := range slices.Concat(p.machines, p.unregistered) {
		if isEtcd(o) && isLive(o) && !o.Skip && !p.inEtcd(o) && !o.delivered() && !p.overdue(o.CreatedAt) {
			out = append(out, note{name: o.Name})
		}
	}
	return out
}

// leaving reports that a deleting machine's etcd member is being removed: the machine is held for it, and nobody is joined to it any
// more, which is what the removal waits for first, or the member does not work. Then the removal waits for nobody: until it is done
// the member counts towards the quorum, and each restart that frees the machine of somebody joined to it would break that.
func (p *pass) leaving(m *machine) bool {
	return m.Held && (p.broken(m) || !slices.ContainsFunc(p.machines, func(o *machine) bool {
		return !o.Deleting && m.Marks.JoinURL != "" && o.Marks.JoinedTo == m.Marks.JoinURL
	}))
}

// broken reports that a machine's node is lost, or that its plan failed or has not worked for a while. Whoever removes members has to see
// it the same way (planstore.Broken), or the two wait for each other.
func (p *pass) broken(m *machine) bool {
	switch {
	case !m.NodeLostSince.IsZero():
		return true
	case m.Plan == nil:
		return false
	case m.Plan.Malformed != "":
		return true
	}
	return m.Plan.State.PlanExists && !m.Plan.State.Works() && (m.Plan.State.Failed || p.overdue(m.Plan.DeliveredAt))
}

// inEtcd reports that a machine may have a member of etcd. One that got its first plan and was never heard of again has none, and one
// that a restore has stopped is not in the new cluster until it starts again.
func (p *pass) inEtcd(m *machine) bool {
	switch {
	case m.Plan == nil:
		return m.delivered()
	case m.stopped():
		return m.sent
	case m.sent || m.inEtcdBefore() || m.Plan.State.FailureCount > 0 || m.Plan.Malformed != "":
		return true
	}
	return m.Plan.State.PlanExists && !p.overdue(m.Plan.DeliveredAt)
}

// inEtcdBefore reports that a machine became part of the cluster.
func (m *machine) inEtcdBefore() bool {
	return m.HasNode || m.marks.JoinURL != "" || !neverApplied(&m.Plan.State)
}

// etcdHealthy reports that the member of a machine is proven to work: the last report says so, and its node is there. A plan of a restore
// that was applied proves the opposite, etcd is down with it.
func (m *machine) etcdHealthy() bool {
	if m.Plan == nil || m.Plan.Malformed != "" || m.sent || m.inDrain() || !m.NodeLostSince.IsZero() || m.stopped() || m.restored() {
		return false
	}
	state := &m.Plan.State
	return state.InSync && !state.Failed && len(m.unhealthyProbes()) == 0
}

// changing reports that a machine is at its plan, by this pass or one before.
func (m *machine) changing() bool {
	return m.Plan != nil && !neverApplied(&m.Plan.State) &&
		(m.sent || m.inDrain() || m.Plan.State.PlanExists && !m.Plan.State.InSync && !m.Plan.State.Failed)
}
