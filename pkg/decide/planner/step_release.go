package planner

// stepRelease takes back what an operation has paused and does not need paused any more, whichever way it ended and whatever
// else holds up the cluster: nobody deletes the machines of a paused cluster. A pause of the user's stays.
func stepRelease(p *pass) verdict {
	cluster := p.s.Cluster
	if cluster == nil || cluster.PausedBy == "" {
		return goOn("no operation has paused the CAPI cluster")
	}
	deleting := cluster.Deleting || p.s.ControlPlane.Deleting
	if !deleting && p.needsPause() {
		return goOn("the CAPI cluster is paused by " + cluster.PausedBy)
	}
	p.first = append(p.first, ResumeCluster{})
	return stopFor(waitFor(ReasonResuming, "resuming the CAPI cluster, paused by "+cluster.PausedBy, WakeCluster))
}
