package planner

// stepWorker lets workers join.
func stepWorker(p *pass) verdict {
	if wait := p.tier(p.workerTier()); wait != nil {
		return stopFor(wait)
	}
	p.holdUnsupported()
	p.rendered = true
	if p.held != nil {
		return stopFor(p.held) // the steps after the tiers need all machines in order
	}
	if p.leftOut != nil {
		return stopFor(p.leftOut)
	}
	return goOn("all workers are in order")
}

func (p *pass) workerTier() tier {
	onlyWorker := func(m *machine) bool { return m.roles.OnlyWorker() }
	return tier{
		name: "worker", ticket: ticketWorker,
		concurrency: p.s.ControlPlane.Spec.UpgradeStrategy.WorkerConcurrency,
		members:     p.collect(onlyWorker, isLive),
		join:        p.joinAnyServer,
	}
}

func (p *pass) joinAnyServer(m *machine) (joinURL, problem string) {
	if joinURL = p.chooseServer(m); joinURL == "" {
		return "", "waiting for a control plane machine that can be joined"
	}
	return joinURL, ""
}
