package tunnel

import (
	"context"
	"sync"
)

// subscribers are told of clusters whose sessions have changed.
type subscribers struct {
	mu   sync.Mutex
	each map[*subscriber]struct{}
}

// subscriber collects what one listener has not been told yet.
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

// Subscribe tells a listener of every cluster that gets a session or loses one, and at first of all that have one, until the context ends.
// What is told is an ID and no more: what holds is asked with Connected, and several changes may be told once. The listener is called
// by one goroutine; however long it takes, nobody else waits for it.
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
