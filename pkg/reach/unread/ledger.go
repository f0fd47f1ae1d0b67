// Package unread ends streams whose reader stops reading. Such a stream holds memory in this process: what arrived for
// the reader, and cannot be passed on. A Ledger knows all streams with a blocked write. It ends a stream whose write
// takes too long. It also ends the streams that are blocked longest when those of one tenant, or all together, may hold
// too much.
package unread

import (
	"container/list"
	"errors"
	"sync"
	"time"
)

// ErrUnread is the error of a write to a stream that a Ledger has ended.
var ErrUnread = errors.New("the stream is not read")

// Reasons why a Ledger ends a stream.
const (
	// ReasonTimeout means that one write was blocked for too long.
	ReasonTimeout = "timeout"
	// ReasonBudget means that blocked streams might hold too many bytes.
	ReasonBudget = "budget"
)

// Reasons lists all reasons.
func Reasons() []string { return []string{ReasonTimeout, ReasonBudget} }

// DefaultTimeout is how long one write may be blocked.
const DefaultTimeout = time.Minute

// grace is how long a write may be blocked before the budgets count against its stream. A busy process has many writes
// that take a moment.
const grace = 250 * time.Millisecond

// Options configure a Ledger.
type Options struct {
	// Timeout is how long one write may be blocked. Zero means DefaultTimeout.
	Timeout time.Duration
	// Bytes and TenantBytes are what all blocked streams, and those of one tenant, may hold. Zero means unlimited.
	Bytes, TenantBytes int64
	// Ended is called with the reason each time the Ledger ends a stream. It may be nil, and must not block.
	Ended func(reason string)
}

// Ledger knows the streams with a blocked write. It is safe for concurrent use.
type Ledger struct {
	options Options

	mu      sync.Mutex
	tenants map[string]*tenant
	bytes   int64
	timer   *time.Timer
	wake    time.Time // when the timer fires; zero while it is not set
}

// tenant has the blocked streams of one tenant, in the order in which their writes began.
type tenant struct {
	blocked list.List
	bytes   int64
}

func (t *tenant) oldest() *Stream {
	if front := t.blocked.Front(); front != nil {
		return front.Value.(*Stream)
	}
	return nil
}

// New returns an empty Ledger.
func New(o Options) *Ledger {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Ended == nil {
		o.Ended = func(string) {}
	}
	return &Ledger{options: o, tenants: map[string]*tenant{}}
}

// Kind describes streams.
type Kind struct {
	// Holds is how many bytes a stream may hold while its writes are blocked.
	Holds int64
	// Patient streams have no timeout. They end only when a budget is exceeded.
	Patient bool
}

// Stream is one direction of a connection. One goroutine writes to it at a time.
type Stream struct {
	ledger *Ledger
	tenant string
	kind   Kind
	end    func()

	// Guarded by the ledger.
	since time.Time
	place *list.Element // nil while no write is blocked
	over  chan struct{} // not nil if the ledger ends the stream; closed when end has returned
}

// Stream adds a stream. The Ledger calls end at most once, while a write is blocked. end unblocks that write.
func (l *Ledger) Stream(tenant string, kind Kind, end func()) *Stream {
	return &Stream{ledger: l, tenant: tenant, kind: kind, end: end}
}

// Do runs one write. Its error is ErrUnread if the Ledger has ended the stream. It returns after end: net/http allows
// no change of deadlines after a handler has returned.
func (s *Stream) Do(write func() error) error {
	over := s.ledger.begin(s)
	var err error
	if over == nil {
		err = write()
		over = s.ledger.finish(s)
	}
	if over != nil {
		<-over
		return ErrUnread
	}
	return err
}

// begin enters a blocked stream. The result is not nil if the stream has ended.
func (l *Ledger) begin(s *Stream) (over <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	of := l.tenants[s.tenant]
	if of == nil {
		of = &tenant{}
		l.tenants[s.tenant] = of
	}
	s.since = time.Now()
	s.place = of.blocked.PushBack(s)
	of.bytes += s.kind.Holds
	l.bytes += s.kind.Holds
	if l.exceeded(of) {
		l.sleepUntil(s.since.Add(grace))
	} else if !s.kind.Patient {
		l.sleepUntil(s.since.Add(l.options.Timeout))
	}
	return nil
}

func (l *Ledger) finish(s *Stream) (over <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(s)
	return s.over
}

func (l *Ledger) remove(s *Stream) {
	if s.place == nil {
		return
	}
	of := l.tenants[s.tenant]
	of.blocked.Remove(s.place)
	of.bytes -= s.kind.Holds
	l.bytes -= s.kind.Holds
	s.place = nil
	if of.blocked.Len() == 0 {
		delete(l.tenants, s.tenant)
	}
}

// exceeded reports whether the streams of a tenant, or all, may hold too much.
func (l *Ledger) exceeded(of *tenant) bool {
	return over(of.bytes, l.options.TenantBytes) || over(l.bytes, l.options.Bytes)
}

func over(bytes, limit int64) bool { return limit > 0 && bytes > limit }

// sleepUntil makes the timer fire at a time, unless it fires before.
func (l *Ledger) sleepUntil(at time.Time) {
	if !l.wake.IsZero() && !at.Before(l.wake) {
		return
	}
	l.wake = at
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(at), l.sweep)
		return
	}
	l.timer.Reset(time.Until(at))
}

// sweep ends streams, and sets the timer for the next ones.
func (l *Ledger) sweep() {
	l.mu.Lock()
	l.wake = time.Time{}
	now := time.Now()
	expired := l.expired(now)
	excess := l.excess(now)
	l.plan()
	l.mu.Unlock()
	for _, s := range expired {
		l.finally(s, ReasonTimeout)
	}
	for _, s := range excess {
		l.finally(s, ReasonBudget)
	}
}

// finally ends a stream in the background, because a connection may take a while to accept that.
func (l *Ledger) finally(s *Stream, reason string) {
	l.options.Ended(reason)
	go func() {
		defer close(s.over)
		s.end()
	}()
}

// expired removes the streams whose write was blocked for too long.
func (l *Ledger) expired(now time.Time) (all []*Stream) {
	for _, of := range l.tenants {
		for place := of.blocked.Front(); place != nil; {
			s := place.Value.(*Stream)
			if now.Sub(s.since) < l.options.Timeout {
				break
			}
			place = place.Next()
			if !s.kind.Patient {
				all = append(all, l.condemn(s))
			}
		}
	}
	return all
}

// excess removes streams until the budgets are kept, as far as the grace allows.
func (l *Ledger) excess(now time.Time) (all []*Stream) {
	old := func(s *Stream) bool { return s != nil && now.Sub(s.since) >= grace }
	for _, of := range l.tenants {
		for over(of.bytes, l.options.TenantBytes) && old(of.oldest()) {
			all = append(all, l.condemn(of.oldest()))
		}
	}
	for over(l.bytes, l.options.Bytes) {
		var most *tenant
		for _, of := range l.tenants {
			if old(of.oldest()) && of.bytes > 0 && (most == nil || of.bytes > most.bytes) {
				most = of
			}
		}
		if most == nil {
			return all
		}
		all = append(all, l.condemn(most.oldest()))
	}
	return all
}

// condemn marks a stream as ended. A write that returns meanwhile also sees that.
func (l *Ledger) condemn(s *Stream) *Stream {
	l.remove(s)
	s.over = make(chan struct{})
	return s
}

// plan sets the timer for what is blocked now.
func (l *Ledger) plan() {
	for _, of := range l.tenants {
		if l.exceeded(of) {
			l.sleepUntil(of.oldest().since.Add(grace))
		}
		for place := of.blocked.Front(); place != nil; place = place.Next() {
			if s := place.Value.(*Stream); !s.kind.Patient {
				l.sleepUntil(s.since.Add(l.options.Timeout))
				break
			}
		}
	}
}
