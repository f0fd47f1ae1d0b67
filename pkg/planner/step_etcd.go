package planner

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
