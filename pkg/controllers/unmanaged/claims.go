package unmanaged

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

// claims holds the identities of hosts whose machines are being created, until the caches show these. Requests of two
// clusters may be handled at the same time. A new process needs no claims, because it fills its caches before it
// handles requests.
type claims struct {
	mu    sync.Mutex
	taken map[string]claim
}

type claim struct {
	cluster types.NamespacedName
	at      time.Time
}

// byAnother reports whether an identity is claimed for another cluster.
func (c *claims) byAnother(id string, cluster types.NamespacedName, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	holder, ok := c.taken[id]
	return ok && holder.cluster != cluster && now.Sub(holder.at) < ownwrites.BelievedAfter
}

// take claims an identity for a cluster. It returns false if another cluster has claimed it.
func (c *claims) take(id string, cluster types.NamespacedName, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.taken, func(_ string, old claim) bool { return now.Sub(old.at) >= ownwrites.BelievedAfter })
	if holder, ok := c.taken[id]; ok && holder.cluster != cluster {
		return false
	}
	if c.taken == nil {
		c.taken = map[string]claim{}
	}
	c.taken[id] = claim{cluster: cluster, at: now}
	return true
}
