package planner

// stepPaused stops when the cluster is paused.
func stepPaused(p *pass) verdict {
	if p.s.Cluster.Paused {
		return stopFor(waitFor(ReasonPaused, "CAPI cluster or RKEControlPlane is paused", WakeCluster,
			WakeControlPlane))
	}
	return goOn("nothing is paused")
}
