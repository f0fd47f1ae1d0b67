package planner

import "slices"

// stepAgent sees to it that the first plan of a cluster brings the agent inside it along, where clusters have one: it decides how the cluster is reached for
// as long as it exists.
func stepAgent(p *pass) verdict {
	switch {
	case !p.s.AwaitsAgent:
		return goOn("there is no manifest of the cluster's agent to wait for")
	case p.s.ControlPlane.Spec.UnmanagedConfig:
		return goOn("the configuration is not managed, so no agent is installed")
	case p.initialized() || slices.ContainsFunc(p.machines, (*machine).delivered) || slices.ContainsFunc(p.unregistered, (*machine).delivered):
		return goOn("the cluster was begun without an agent")
	case len(p.collect((*machine).canBeInit)) == 0:
		return goOn("the manifest of the cluster's agent is being made while there is no machine that could use it")
	}
	return stopFor(waitFor(ReasonAgentManifest, "waiting for the manifest of the cluster's agent", WakeAgentManifest))
}
