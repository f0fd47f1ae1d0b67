package machinenodelookup

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// freshFor is how long a cache may take to show our own write. After that what the cache says is believed.
const freshFor = 10 * time.Second

// written remembers which machines were told their nodes, because the event of the first of our two writes runs the handler
// again before the cache shows the second.
type written struct {
	mu   sync.Mutex
	told map[types.UID]time.Time
}

func newWritten() *written { return &written{told: map[types.UID]time.Time{}} }

// note remembers that a machine was told.
func (w *written) note(machine types.UID, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.told, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= freshFor })
	w.told[machine] = now
}

// left is how long the caches may still be behind what a machine was told; zero when they are to be believed.
func (w *written) left(machine types.UID, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.told[machine]
	if !ok {
		return 0
	}
	return max(0, freshFor-now.Sub(at))
}
