package planner

// stepInit starts the init node, alone.
func stepInit(p *pass) verdict {
	if p.init.Deleting {
		return goOn("the init node is being deleted, and is not changed any more")
	}
	wait := p.tier(p.initTier())
	if wait != nil && wait.Reason == ReasonEtcdUnhealthy && p.init.marks.JoinURL != "" {
		p.blocked = wait
		return goOn("the init node waits for other etcd members")
	}
	if wait != nil {
		return stopFor(wait)
	}
	if p.init.marks.JoinURL == "" && p.held != nil {
		return stopFor(p.held)
	}
	if p.init.marks.JoinURL == "" {
		text := "waiting for join url to be available on bootstrap node"
		if p.unwell != "" {
			text = p.unwell + " and join url to be available on bootstrap node"
		}
		return stopFor(waitFor(ReasonJoinURL, text, WakeMachine, WakePlanSecret))
	}
	return goOn("the init node is in order")
}

func (p *pass) initTier() tier {
	return tier{
		name: "bootstrap", ticket: ticketInit, ticketFirsts: true,
		members: []*machine{p.init},
		join:    func(*machine) (string, string) { return "", "" },
	}
}
