package planner

// stepSteady ends every walk that nothing else has ended: the nodes are as they should be. What remains is to say if Cluster
// API or somebody else has something against a Machine.
func stepSteady(p *pass) verdict {
	if p.unwell != "" {
		return stopFor(waitFor(ReasonMachinesUnhealthy, p.unwell, WakeMachine))
	}
	return stopFor(nil)
}
