package planner

// PausedMessage is what a paused cluster waits for. The condition Ready has no reason of its own for a pause.
const PausedMessage = "CAPI cluster or RKEControlPlane is paused"

// stepPaused stops when the cluster is paused.
func stepPaused(p *pass) verdict {
	if p.s.Cluster.Paused {
		return stopFor(waitFor(ReasonPaused, PausedMessage, WakeCluster, WakeControlPlane))
	}
	return goOn("nothing is paused")
}
