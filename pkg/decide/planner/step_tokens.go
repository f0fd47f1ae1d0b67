package planner

import "slices"

// stepTokens makes sure that the cluster has its join tokens. Drover creates them once, before the first plan, because
// a node that has joined with one token cannot change to another.
func stepTokens(p *pass) verdict {
	tokens := p.s.Tokens
	switch {
	case p.s.ControlPlane.Spec.UnmanagedConfig:
		return goOn("the configuration is not managed, so there are no tokens")
	case tokens.Problem != "":
		return stopFor(failure(ReasonTokensUnusable, "The cluster state secret cannot be used: "+tokens.Problem,
			WakeStateSecret))
	case tokens.Exists:
		return goOn("the join tokens exist")
	case slices.ContainsFunc(p.machines, (*machine).gotPlan) || slices.ContainsFunc(p.unregistered, (*machine).gotPlan):
		return stopFor(failure(ReasonTokensLost,
			"The cluster state secret is missing although plans were delivered; restore it from a backup",
			WakeStateSecret))
	}
	p.first = append(p.first, CreateTokens{})
	if len(p.collect((*machine).canBeInit)) == 0 {
		return goOn("the join tokens are being made while there is no machine that could use them")
	}
	return stopFor(waitFor(ReasonTokens, "waiting for the join tokens of the cluster", WakeStateSecret))
}
