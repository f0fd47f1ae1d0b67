package machineprovision

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// freshFor is how long a cache may take to show our own write. After that what the cache says is believed.
const freshFor = 10 * time.Second

// written remembers our last writes, because a cache may not show them yet when an event of something else runs the handler
// again: what would be written then is refused by the API server, or was written already.
type written struct {
	mu       sync.Mutex
	replaced map[types.UID]map[string]time.Time
	made     map[string]time.Time
}

func newWritten() *written {
	return &written{replaced: map[types.UID]map[string]time.Time{}, made: map[string]time.Time{}}
}

// replace notes that an object's version was replaced by our write.
func (w *written) replace(uid types.UID, version string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(now)
	if w.replaced[uid] == nil {
		w.replaced[uid] = map[string]time.Time{}
	}
	w.replaced[uid][version] = now
}

// behind reports whether the cache shows a version that our write has replaced. The event of the new one is on its way.
func (w *written) behind(obj metav1.Object, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.replaced[obj.GetUID()][obj.GetResourceVersion()]
	return ok && now.Sub(at) < freshFor
}

// note remembers that we made, or deleted, what the key stands for.
func (w *written) note(key string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(now)
	w.made[key] = now
}

// noted reports whether we did so just now. If the cache does not show it, its event is on its way.
func (w *written) noted(key string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.made[key]
	return ok && now.Sub(at) < freshFor
}

// forget drops what is too old to matter. The lock is held.
func (w *written) forget(now time.Time) {
	for uid, versions := range w.replaced {
		for version, at := range versions {
			if now.Sub(at) >= freshFor {
				delete(versions, version)
			}
		}
		if len(versions) == 0 {
			delete(w.replaced, uid)
		}
	}
	for key, at := range w.made {
		if now.Sub(at) >= freshFor {
			delete(w.made, key)
		}
	}
}
