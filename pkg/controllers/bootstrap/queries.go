package bootstrap

import (
	"sync"
	"time"
)

// askedAgain is the retry delay while the same cluster is being queried for another machine.
const askedAgain = time.Second

// asking holds the clusters that are being queried about their members. Workers do not wait for a turn: the machines of
// one unreachable cluster would block all workers.
type asking struct {
	mu       sync.Mutex
	clusters map[string]bool
}

// begin reports whether the caller may query the cluster. If so, the caller must call end.
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
