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
	// failing is when the queries of a cluster began to fail.
	failing map[string]time.Time
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

// failed records a query without an answer, and returns how long the queries of the cluster have failed.
func (q *queries) failed(cluster string, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failing == nil {
		q.failing = map[string]time.Time{}
	}
	since, ok := q.failing[cluster]
	if !ok {
		q.failing[cluster], since = now, now
	}
	return now.Sub(since)
}

func (q *queries) answered(cluster string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.failing, cluster)
}
