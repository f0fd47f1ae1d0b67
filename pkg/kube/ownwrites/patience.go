package ownwrites

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Patience lets a write wait for a moment, because a later write of the same object may include it. It is safe for
// concurrent use. A nil Patience never waits.
type Patience struct {
	most time.Duration

	mu    sync.Mutex
	since map[types.UID]time.Time
}

// NewPatience returns one that lets a write wait for at most that long.
func NewPatience(most time.Duration) *Patience {
	return &Patience{most: most, since: map[types.UID]time.Time{}}
}

// Left returns how long the write may still wait. The first call for an object starts its time. Zero means that the
// write happens now.
func (p *Patience) Left(uid types.UID, now time.Time) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	since, ok := p.since[uid]
	if !ok {
		// Objects that were deleted meanwhile never end.
		maps.DeleteFunc(p.since, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= 2*p.most })
		p.since[uid], since = now, now
	}
	return max(0, p.most-now.Sub(since))
}

// End records that nothing waits for the object any more.
func (p *Patience) End(uid types.UID) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, uid)
}
