package unmanaged

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// known holds when this process first saw each request, by NAMESPACE/NAME. The creation time comes from another host's
// clock, which may be wrong by more than keptFor. A new process starts empty, and keeps each request a little longer.
// It has as many entries as there are requests.
type known struct {
	mu    sync.Mutex
	since map[string]sighting
}

type sighting struct {
	uid types.UID
	at  time.Time
}

// firstSeen returns when a request was first seen, which is now for a new one.
func (k *known) firstSeen(key string, uid types.UID, now time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if met, ok := k.since[key]; ok && met.uid == uid {
		return met.at
	}
	if k.since == nil {
		k.since = map[string]sighting{}
	}
	k.since[key] = sighting{uid: uid, at: now}
	return now
}

// forget drops a deleted request.
func (k *known) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.since, key)
}
