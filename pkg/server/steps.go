package server

import (
	"sync"
	"time"

	"github.com/drover-io/drover/pkg/observe/events"
)

// firstWindow is how long the first Event of a step waits for the same step of other machines of its cluster. The
// machines of a pool take each step within seconds of each other. While more machines follow, each window is twice as
// long as the one before, up to lastWindow. At that pace, the recorder drops none of the Events (sameAtOnce).
const firstWindow, lastWindow = 30 * time.Second, 5 * time.Minute

// steps combines the same step of several machines into one Event about their Cluster.
type steps struct {
	record func(events.Event)

	mu    sync.Mutex
	ended bool
	open  map[string]*window // by the kind of step
}

// window collects one kind of step until its timer ends. It then opens once more, and closes for good when no machine
// has taken the step by its end.
type window struct {
	batch events.Batch
	width time.Duration
	timer *time.Timer
}

func newSteps(record func(events.Event)) *steps {
	return &steps{record: record, open: map[string]*window{}}
}

// add adds an Event with a Step.
func (s *steps) add(e events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	w := s.open[e.Step.Kind]
	if w == nil {
		w = &window{width: firstWindow}
		w.timer = time.AfterFunc(w.width, func() { s.next(e.Step.Kind) })
		s.open[e.Step.Kind] = w
	}
	w.batch.Add(e)
}

// next records what a window has collected.
func (s *steps) next(kind string) {
	s.mu.Lock()
	w := s.open[kind]
	if w == nil {
		s.mu.Unlock()
		return
	}
	batch := w.batch
	if batch.Empty() {
		delete(s.open, kind)
	} else {
		w.batch, w.width = events.Batch{}, min(2*w.width, lastWindow)
		w.timer.Reset(w.width)
	}
	s.mu.Unlock()
	if !batch.Empty() {
		s.record(batch.Event())
	}
}

// end records what is left, and ignores later steps.
func (s *steps) end() {
	s.mu.Lock()
	left := s.open
	s.open, s.ended = nil, true
	s.mu.Unlock()
	for _, w := range left {
		w.timer.Stop()
		if !w.batch.Empty() {
			s.record(w.batch.Event())
		}
	}
}
