package planner

// stepEtcd lets the other etcd machines join the init node.
func stepEtcd(p *pass) verdict {
	wait := p.tier(tier{
		name:    "etcd",
		ticket:  ticketEtcd,
		members: p.collect(isEtcd, isLive, notInit),
		join:    p.joinInit,
	})
	if wait != nil {
		return stopFor(wait)
	}
	return goOn("all etcd machines are in order")
}

func notInit(m *machine) bool { return !m.marks.InitNode }

// joinInit makes a server join the init node.
func (p *pass) joinInit(*machine) (joinURL, problem string) { return p.init.marks.JoinURL, "" }
