package planner

// stepSteady ends every walk that no other step has ended: the nodes are in order. It still reports problems of
// Machines that Cluster API or other controllers see.
func stepSteady(p *pass) verdict {
	if p.unwell != "" {
		return stopFor(waitFor(ReasonMachinesUnhealthy, p.unwell, WakeMachine))
	}
	return stopFor(nil)
}
