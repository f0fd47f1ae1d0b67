package ownwrites

import (
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TextsEvery is the shortest time between a write of a status and a write that changes only its texts: the reasons and
// messages of conditions. While a cluster is made, texts change several times a second, and users cannot read them.
const TextsEvery = 3 * time.Second

// Statuses is the memory of all controllers that write the status of one kind. It is safe for concurrent use, and lost
// with the process. It holds an object for a few seconds after a write. A nil Statuses remembers nothing.
type Statuses struct {
	log *Log

	mu      sync.Mutex
	written map[types.UID]time.Time
}

// NewStatuses returns an empty memory.
func NewStatuses() *Statuses { return &Statuses{log: New(), written: map[types.UID]time.Time{}} }

// Behind reports whether obj, from a cache, has a version that Drover's write has replaced. The event of the new
// version is still to come. A write of this version would conflict.
func (s *Statuses) Behind(obj metav1.Object, now time.Time) bool {
	return s != nil && s.log.Behind(obj, now)
}

// Replaced records a write of an object outside of its status. The API server answered it with after. A write that
// changed nothing does not count, because no event follows it.
func (s *Statuses) Replaced(before, after metav1.Object, now time.Time) {
	if s != nil && before.GetResourceVersion() != after.GetResourceVersion() {
		s.log.Replaced(before.GetUID(), before.GetResourceVersion(), now)
	}
}

// Wrote records a write of the status of an object, like Replaced. The next change of texts alone has to wait.
func (s *Statuses) Wrote(before, after metav1.Object, now time.Time) {
	if s == nil {
		return
	}
	s.Replaced(before, after, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.written, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= TextsEvery })
	s.written[before.GetUID()] = now
}

// Hold returns how long a change of texts alone has to wait. The caller requeues the object after that time, and then
// writes the texts that are current by then. Zero means that the change is written now.
func (s *Statuses) Hold(uid types.UID, now time.Time) time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.written[uid]
	if !ok || now.Before(at) {
		return 0
	}
	return max(0, TextsEvery-now.Sub(at))
}
