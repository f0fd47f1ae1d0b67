package bootstrap

import (
	"sync"
	"time"
)

// askedAgain is how soon a machine looks again whose cluster is being asked for another one.
const askedAgain = time.Second

// asking are the clusters that are being asked about their members. Nobody waits for his turn in a worker: those of one cluster
// that is down would keep all workers from all others.
type asking struct {
	mu       sync.Mutex
	clusters map[string]bool
}

// begin reports whether it is the caller's turn; then end has to follow.
func (a *asking) begin(cluster string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.clusters[cluster] {
		return false
	}
	if a.clusters == nil {
		a.clusters = map[string]bool{}
	}
	a.clusters[cluster] = true
	return true
}

func (a *asking) end(cluster string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.clusters, cluster)
}
