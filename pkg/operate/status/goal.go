package status

// Goal is what a user waits for after a change of a cluster.
type Goal struct {
	// Generation of the Cluster with the change.
	Generation int64
	// Gone waits for the end of the cluster instead.
	Gone bool
}

// Reached reports whether the cluster has what its spec requests: it is Ready, every pool has its machines, and all
// machines run the requested version. known is false if the user may not read machines. Then Ready decides.
func (g Goal) Reached(c *Cluster, machines []Machine, known bool) bool {
	if g.Gone || !g.seen(c) || c.State != Ready {
		return false
	}
	if !known {
		return true
	}
	counts := map[string]int32{}
	for i := range machines {
		m := &machines[i]
		if m.State != Running || m.Version != "" && m.Version != c.Version {
			return false
		}
		counts[m.Pool]++
	}
	for _, pool := range c.Pools {
		if !pool.Scaled && counts[pool.Name] != pool.Wanted {
			return false
		}
	}
	return len(machines) > 0
}

// seen reports whether the server has seen the change.
func (g Goal) seen(c *Cluster) bool { return c.Observed >= g.Generation }

// Obstacle says why the goal cannot be reached without a user. It is empty if it can. A failure may pass, because
// Drover repeats what failed, so it counts only after some time.
func (g Goal) Obstacle(c *Cluster) (text string, mayPass bool) {
	name := "cluster " + c.Namespace + "/" + c.Name
	switch {
	case g.Gone && c.State == Deleting:
		return "", false
	case c.State == Deleting:
		return name + " is being deleted", false
	case !g.Gone && g.seen(c) && c.State == Paused:
		return name + " is paused", false
	case !g.Gone && g.seen(c) && c.State == Failed:
		return name + " failed: " + c.Message, true
	}
	return "", false
}
