package planner

import (
	"slices"

	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// stepAgent makes sure that the first plan of a cluster installs its agent, in clusters that have one. The agent
// decides how Drover reaches the cluster for as long as the cluster exists.
func stepAgent(p *pass) verdict {
	p.warnAgent()
	switch {
	case !p.s.AwaitsAgent:
		return goOn("there is no manifest of the cluster's agent to wait for")
	case p.s.ControlPlane.Spec.UnmanagedConfig:
		return goOn("the configuration is not managed, so no agent is installed")
	case p.initialized() || slices.ContainsFunc(p.all(), (*machine).gotPlan):
		return goOn("the cluster was begun without an agent")
	case p.s.AgentProblem != "":
		return stopFor(failure(ReasonAgentInvalid, "the manifest of the cluster's agent cannot be made: "+
			p.s.AgentProblem, WakeManagement))
	case len(p.collect((*machine).canBeInit)) == 0:
		return goOn("the manifest of the cluster's agent is being made while there is no machine that could use it")
	}
	return stopFor(waitFor(ReasonAgentManifest, "waiting for the manifest of the cluster's agent", WakeAgentManifest))
}

// warnAgent warns that the installed agent of a cluster can get no other image or token.
func (p *pass) warnAgent() {
	if p.s.AgentProblem != "" && p.s.ClusterAgent.Manifest != "" && !p.s.ControlPlane.Spec.UnmanagedConfig {
		p.warnings[render.Warning{
			Reason: string(ReasonAgentInvalid), Field: "spec",
			Message: "The agent inside the cluster stays as it is, because no other manifest of it can be made: " +
				p.s.AgentProblem,
		}] = true
	}
}
