// Package ownwrites remembers what a handler wrote until its caches show it. Another event may run the handler earlier.
// It would then repeat the write, or the API server would refuse it.
package ownwrites

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BelievedAfter is how long a cache may lag behind Drover's own write. After that the cache is believed.
const BelievedAfter = 10 * time.Second

// Log is the memory of one handler, for all its objects. It is lost with the process, whose caches also start empty.
type Log struct {
	mu       sync.Mutex
	replaced map[version]time.Time
	done     map[string]time.Time
}

type version struct {
	uid     types.UID
	version string
}

// New returns an empty log.
func New() *Log {
	return &Log{replaced: map[version]time.Time{}, done: map[string]time.Time{}}
}

// Replaced records that Drover's write replaced a version of an object.
func (l *Log) Replaced(uid types.UID, resourceVersion string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	forget(l.replaced, now)
	l.replaced[version{uid, resourceVersion}] = now
}

// Behind reports whether obj, from a cache, has a version that Drover's write has replaced. The event of the new
// version is still to come.
func (l *Log) Behind(obj metav1.Object, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.replaced[version{obj.GetUID(), obj.GetResourceVersion()}]
	return ok && now.Sub(at) < BelievedAfter
}

// Did records that the action of the key was done.
func (l *Log) Did(key string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	forget(l.done, now)
	l.done[key] = now
}

// Left returns how long the caches may still lag behind the action of the key; zero if they are believed.
func (l *Log) Left(key string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.done[key]
	if !ok {
		return 0
	}
	return max(0, BelievedAfter-now.Sub(at))
}

// Shown records that the caches show the result of the key's action. Its later absence is then news.
func (l *Log) Shown(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.done, key)
}

// forget drops entries older than BelievedAfter.
func forget[K comparable](notes map[K]time.Time, now time.Time) {
	maps.DeleteFunc(notes, func(_ K, at time.Time) bool { return now.Sub(at) >= BelievedAfter })
}
