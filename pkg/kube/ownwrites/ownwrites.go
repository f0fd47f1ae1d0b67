// Package ownwrites remembers what a handler wrote until its caches show it. An event of something else may run the handler
// again before that: what would be written then is refused by the API server, or was written already.
package ownwrites

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BelievedAfter is how long a cache may take to show our own write. After that what the cache says is believed.
const BelievedAfter = 10 * time.Second

// Log is the memory of one handler, for all its objects. It is lost with the process, whose caches start anew too.
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

// Replaced notes that an object's version was replaced by our write.
func (l *Log) Replaced(uid types.UID, resourceVersion string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	forget(l.replaced, now)
	l.replaced[version{uid, resourceVersion}] = now
}

// Behind reports whether obj, from a cache, has a version that our write has replaced. The event of the new one is on its way.
func (l *Log) Behind(obj metav1.Object, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.replaced[version{obj.GetUID(), obj.GetResourceVersion()}]
	return ok && now.Sub(at) < BelievedAfter
}

// Did notes that we did what the key stands for.
func (l *Log) Did(key string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	forget(l.done, now)
	l.done[key] = now
}

// Left is how long the caches may still be behind what we did; zero when they are to be believed.
func (l *Log) Left(key string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.done[key]
	if !ok {
		return 0
	}
	return max(0, BelievedAfter-now.Sub(at))
}

// Shown notes that the caches show what the key stands for: when it is gone again, that is news.
func (l *Log) Shown(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.done, key)
}

// forget drops what is too old to matter.
func forget[K comparable](notes map[K]time.Time, now time.Time) {
	maps.DeleteFunc(notes, func(_ K, at time.Time) bool { return now.Sub(at) >= BelievedAfter })
}
