package server

import (
	"sync"
	"time"

	"github.com/drover-io/drover/pkg/observe/events"
)

// stepWindow is how long an Event waits for the same step of other machines of its cluster. The machines of a pool take
// each step within seconds of each other.
const stepWindow = 30 * time.Second

// steps combines the same step of several machines into one Event about their Cluster.
type steps struct {
	record func(events.Event)

	mu    sync.Mutex
	ended bool
	open  map[string]*window // by the kind of step
}

// window collects one kind of step until its timer ends.
type window struct {
	batch events.Batch
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
		w = &window{timer: time.AfterFunc(stepWindow, func() { s.close(e.Step.Kind) })}
		s.open[e.Step.Kind] = w
	}
	w.batch.Add(e)
}

func (s *steps) close(kind string) {
	s.mu.Lock()
	w := s.open[kind]
	delete(s.open, kind)
	s.mu.Unlock()
	if w != nil {
		s.record(w.batch.Event())
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
		s.record(w.batch.Event())
	}
}
