package tunnel

import (
	"context"
	"sync"
)

// subscribers are notified of clusters whose sessions have changed.
type subscribers struct {
	mu   sync.Mutex
	each map[*subscriber]struct{}
}

// subscriber collects the pending notifications of one listener.
type subscriber struct {
	mu      sync.Mutex
	pending map[string]struct{}
	wake    chan struct{}
}

func (s *subscriber) add(clusters ...string) {
	s.mu.Lock()
	for _, cluster := range clusters {
		s.pending[cluster] = struct{}{}
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) take() map[string]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.pending
	s.pending = map[string]struct{}{}
	return taken
}

func (s *subscriber) run(ctx context.Context, listener func(string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for cluster := range s.take() {
			if ctx.Err() != nil {
				return
			}
			listener(cluster)
		}
	}
}

func (s *subscribers) notify(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for each := range s.each {
		each.add(cluster)
	}
}

// Subscribe calls a listener for every cluster that gains or loses a session, until the context ends. First it calls it
// for all connected clusters. Notifications carry only the ID: the listener calls Connected for the state. Several
// changes may be merged into one call. One goroutine calls the listener, and a slow listener delays no other code.
func (s *Server) Subscribe(ctx context.Context, listener func(cluster string)) {
	each := &subscriber{pending: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	s.subscribers.mu.Lock()
	if s.subscribers.each == nil {
		s.subscribers.each = map[*subscriber]struct{}{}
	}
	s.subscribers.each[each] = struct{}{}
	s.subscribers.mu.Unlock()
	each.add(s.table.ids()...)
	context.AfterFunc(ctx, func() {
		s.subscribers.mu.Lock()
		defer s.subscribers.mu.Unlock()
		delete(s.subscribers.each, each)
	})
	go each.run(ctx, listener)
}
