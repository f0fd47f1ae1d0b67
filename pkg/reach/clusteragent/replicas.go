package clusteragent

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Pauses between attempts to open a session.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
	// lastAwayPause is the longest pause while the server is unreachable. Attempts then cost the server little, and the
	// agent reconnects soon after the server or the network is back.
	lastAwayPause = 5 * time.Second
	// duplicatePause is the shortest pause, and half of the longest, after a duplicate session to a replica. This is no
	// failure: another attempt will reach another replica, which cannot serve the cluster until then.
	duplicatePause = time.Second
	// proven is how long a session must live to reset the backoff.
	proven = time.Minute
)

// backoff is the pause before the next attempt. It doubles, and is shortened at random by up to half, so that agents do
// not reconnect all at once.
type backoff struct{ attempts int }

// next is the next pause, at most longest. random is from 0 to 1.
func (b *backoff) next(longest time.Duration, random float64) time.Duration {
	pause := min(firstPause<<b.attempts, longest)
	if pause < longest {
		b.attempts++
	}
	return time.Duration(float64(pause) * (1 - random/2))
}

func (b *backoff) reset() { b.attempts = 0 }

// longest is the longest pause after a failed attempt. A server that is starting answers 503. A proxy in front of an
// unavailable server answers 502 or 504.
func longest(err error) time.Duration {
	var failed *net.OpError
	var answered *noSession
	switch {
	case errors.As(err, &failed) && failed.Op == "dial":
		return lastAwayPause
	case errors.As(err, &answered) && answered.code >= http.StatusBadGateway &&
		answered.code <= http.StatusGatewayTimeout:
		return lastAwayPause
	default:
		return lastPause
	}
}

// replicas tracks the replicas with a session, and whether more sessions are needed.
type replicas struct {
	mu       sync.Mutex
	sessions map[string]bool
	wanted   int
	lost     bool // a session has ended
	changed  chan struct{}
}

func newReplicas() *replicas {
	return &replicas{sessions: map[string]bool{}, wanted: 1, changed: make(chan struct{}, 1)}
}

func (r *replicas) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// add registers a session to a replica. It returns false for a duplicate.
func (r *replicas) add(replica string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[replica] {
		return false
	}
	r.sessions[replica] = true
	return true
}

// remove registers the end of a session.
func (r *replicas) remove(replica string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, replica)
	r.lost = true
	r.notify()
}

// takeLost reports whether a session has ended since the last call.
func (r *replicas) takeLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.lost
	r.lost = false
	return lost
}

// want sets the number of replicas, at least one.
func (r *replicas) want(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n = max(1, n); n != r.wanted {
		r.wanted = n
		r.notify()
	}
}

// lacking reports whether there are fewer sessions than replicas.
func (r *replicas) lacking() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions) < r.wanted
}

func (r *replicas) connected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions) > 0
}

// random selects a pause within its range.
func random() float64 { return rand.Float64() } //nolint:gosec // nothing secret
