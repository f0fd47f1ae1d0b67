package bootstrap

import (
	"sync"
	"time"
)

// busyRetry is the retry delay while the same cluster is being queried for another machine.
const busyRetry = time.Second

// queries holds the clusters that are being queried about their members. Workers do not wait for a turn: the machines
// of one unreachable cluster would block all workers.
type queries struct {
	mu       sync.Mutex
	clusters map[string]bool
}

// begin reports whether the caller may query the cluster. If so, the caller must call end.
func (q *queries) begin(cluster string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.clusters[cluster] {
		return false
	}
	if q.clusters == nil {
		q.clusters = map[string]bool{}
	}
	q.clusters[cluster] = true
	return true
}

func (q *queries) end(cluster string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.clusters, cluster)
}
