package connect

import (
	"context"
	"sync"
	"time"
)

// recheckTime is how often the token of an open watch is checked again.
const recheckTime = time.Minute

// lease is the right to continue a watch.
type lease struct {
	// ended is closed when the watch must end.
	ended chan struct{}
	// end ends the watch. It may be called repeatedly.
	end func()
}

type leaseKey struct{}

// leaseOf returns the lease of a watch, nil for other requests.
func leaseOf(ctx context.Context) *lease {
	l, _ := ctx.Value(leaseKey{}).(*lease)
	return l
}

// newLease returns a lease, and a context that contains it and ends with it.
func newLease(ctx context.Context) (context.Context, *lease) {
	ctx, cancel := context.WithCancel(ctx)
	l := &lease{ended: make(chan struct{})}
	l.end = sync.OnceFunc(func() {
		close(l.ended) // before the context, so that the stream ends without an error
		cancel()
	})
	return context.WithValue(ctx, leaseKey{}, l), l
}

// keep ends the lease when the replica ends, or when a check says that the right is gone. It returns when the lease has
// ended.
func (l *lease) keep(ending <-chan struct{}, every time.Duration, granted func() bool) {
	defer l.end()
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-l.ended:
			return
		case <-ending:
			return
		case <-ticks.C:
			if !granted() {
				return
			}
		}
	}
}
