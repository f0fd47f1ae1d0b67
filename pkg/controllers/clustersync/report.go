package clustersync

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/pkg/observe/events"
)

// report announces new problems. A problem that continues is announced once.
func (h *handler) report(cluster types.NamespacedName, problems []problem) {
	now := map[target]string{}
	for _, p := range problems {
		now[p.source.at()] = p.text
	}
	h.mu.Lock()
	known := h.known[cluster]
	if known == nil {
		h.mu.Unlock()
		return
	}
	before := known.problems
	known.problems = now
	h.mu.Unlock()
	for _, p := range problems {
		if before[p.source.at()] != p.text {
			h.Announce(events.SyncRefused(p.source.kind, p.source.ObjectMeta, cluster.Name, p.text))
		}
	}
}
