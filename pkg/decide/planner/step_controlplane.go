package planner

// stepControlPlane lets control-plane machines without etcd join, and then reports to Cluster API that there is an API.
// Control-plane machines with etcd belong to the tier before.
func stepControlPlane(p *pass) verdict {
	if wait := p.tier(p.controlPlaneTier()); wait != nil {
		return stopFor(wait)
	}
	if len(p.collect(isControlPlane, isLive, func(m *machine) bool { return m.marks.JoinURL != "" })) == 0 {
		return stopFor(waitFor(ReasonControlPlane, "waiting for control plane to be available", WakeMachine,
			WakePlanSecret))
	}
	if !p.initialized() {
		p.setInitialized(true)
	}
	return goOn("all control-plane machines are in order")
}

func (p *pass) controlPlaneTier() tier {
	return tier{
		name: "control plane", ticket: ticketControlPlane,
		concurrency: p.s.ControlPlane.Spec.UpgradeStrategy.ControlPlaneConcurrency,
		members:     p.collect(isControlPlane, isLive, notInit, func(m *machine) bool { return !m.roles.ETCD }),
		join:        p.joinInit,
	}
}
