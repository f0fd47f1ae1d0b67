package unmanaged

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// known tells since when this process knows requests, by NAMESPACE/NAME. When they were made tells the clock of another host, which may be late by more than
// a request is kept. A process that is started anew knows none, and keeps each a little longer. There are as many as requests.
type known struct {
	mu    sync.Mutex
	since map[string]acquaintance
}

type acquaintance struct {
	uid types.UID
	at  time.Time
}

// meet returns since when a request is known: from now on, when it is not.
func (k *known) meet(key string, uid types.UID, now time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if met, ok := k.since[key]; ok && met.uid == uid {
		return met.at
	}
	if k.since == nil {
		k.since = map[string]acquaintance{}
	}
	k.since[key] = acquaintance{uid: uid, at: now}
	return now
}

// forget is for a request that is gone.
func (k *known) forget(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.since, key)
}
