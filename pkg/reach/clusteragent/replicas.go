package clusteragent

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Times between attempts to open a session.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
	// lastAwayPause is the longest while there is no server: trying costs it little then, and the cluster is reached soon after it is there again, or the
	// network before it.
	lastAwayPause = 5 * time.Second
	// duplicatePause is the least until the next attempt, and half of the most, when a replica has answered to which there is a session. Another one
	// will: nothing is wrong, and until then it cannot serve the cluster.
	duplicatePause = time.Second
	// proven is how long a session has to live for the next attempt to be made soon.
	proven = time.Minute
)

// backoff is the pause before the next attempt: it doubles, and is shortened by up to half at random, so that agents do not come all at once.
type backoff struct{ attempts int }

// next is the next pause, at most the longest; random is from 0 to 1.
func (b *backoff) next(longest time.Duration, random float64) time.Duration {
	pause := min(firstPause<<b.attempts, longest)
	if pause < longest {
		b.attempts++
	}
	return time.Duration(float64(pause) * (1 - random/2))
}

func (b *backoff) reset() { b.attempts = 0 }

// longest is the longest pause after an attempt that has failed. A server that has just been started answers 503, and who stands before one that is not
// there 502 or 504.
func longest(err error) time.Duration {
	var failed *net.OpError
	var answered *noSession
	switch {
	case errors.As(err, &failed) && failed.Op == "dial":
		return lastAwayPause
	case errors.As(err, &answered) && answered.code >= http.StatusBadGateway && answered.code <= http.StatusGatewayTimeout:
		return lastAwayPause
	default:
		return lastPause
	}
}

// replicas knows to which replicas of the server there are sessions, and whether there have to be more.
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

// add notes a session to a replica; false when there is one already.
func (r *replicas) add(replica string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[replica] {
		return false
	}
	r.sessions[replica] = true
	return true
}

// remove notes that a session has ended.
func (r *replicas) remove(replica string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, replica)
	r.lost = true
	r.notify()
}

// takeLost tells whether a session has ended since it was asked last.
func (r *replicas) takeLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.lost
	r.lost = false
	return lost
}

// want notes how many replicas there are; less than one is not believed.
func (r *replicas) want(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n = max(1, n); n != r.wanted {
		r.wanted = n
		r.notify()
	}
}

// lacking tells whether there are fewer sessions than replicas.
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

// random is where in its range a pause lies.
func random() float64 { return rand.Float64() } //nolint:gosec // nothing secret
