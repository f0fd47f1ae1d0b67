package unmanaged

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

// claims are the identities of hosts whose machines are being made, until the caches show these: requests of two clusters may be
// looked at in the same moment. A process that is started anew reads what the one before it has made before it looks at any.
type claims struct {
	mu    sync.Mutex
	taken map[string]claim
}

type claim struct {
	cluster types.NamespacedName
	at      time.Time
}

// byAnother reports whether an identity is taken for another cluster.
func (c *claims) byAnother(id string, cluster types.NamespacedName, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	holder, ok := c.taken[id]
	return ok && holder.cluster != cluster && now.Sub(holder.at) < ownwrites.BelievedAfter
}

// take takes an identity for a cluster, or reports that it is taken for another one.
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
