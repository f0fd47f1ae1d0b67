package planner

// stepRelease ends the pause of an operation that no longer needs it. How the operation ended, and what else holds up
// the cluster, does not matter: Cluster API deletes no machines of a paused cluster. A pause of the user stays.
func stepRelease(p *pass) verdict {
	cluster := p.s.Cluster
	if cluster == nil || cluster.PausedBy == "" {
		return goOn("no operation has paused the CAPI cluster")
	}
	deleting := cluster.Deleting || p.s.ControlPlane.Deleting
	if !deleting && needsPause(p) {
		return goOn("the CAPI cluster is paused by " + cluster.PausedBy)
	}
	p.first = append(p.first, ResumeCluster{})
	return stopFor(waitFor(ReasonResuming, "resuming the CAPI cluster, paused by "+cluster.PausedBy, WakeCluster))
}
