package planner

// windowsFailures is how many attempts a Windows node has before its plan counts as failed. The first ones often fail.
const windowsFailures = 5

// stepWorker lets workers join, Linux first: Windows nodes need the network that Linux nodes provide.
func stepWorker(p *pass) verdict {
	for _, windows := range []bool{false, true} {
		if wait := p.tier(p.workerTier(windows)); wait != nil {
			return stopFor(wait)
		}
	}
	p.rendered = true
	if p.held != nil {
		return stopFor(p.held) // the steps after the tiers need all machines in order
	}
	if p.leftOut != nil {
		return stopFor(p.leftOut)
	}
	return goOn("all workers are in order")
}

func (p *pass) workerTier(windows bool) tier {
	onlyWorker := func(m *machine) bool { return m.roles.OnlyWorker() }
	t := tier{
		name: "worker", ticket: ticketWorker,
		concurrency: p.s.ControlPlane.Spec.UpgradeStrategy.WorkerConcurrency,
		members:     p.collect(onlyWorker, isLive, func(m *machine) bool { return m.windows == windows }),
		join:        p.joinAnyServer,
	}
	if windows {
		t.failureThreshold = windowsFailures
	}
	return t
}

func (p *pass) joinAnyServer(m *machine) (joinURL, problem string) {
	if joinURL = p.chooseServer(m); joinURL == "" {
		return "", "waiting for a control plane machine that can be joined"
	}
	return joinURL, ""
}
