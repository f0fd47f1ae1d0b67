package ui

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// attemptHeader names one attempt of a page to write.
	attemptHeader = "Idempotency-Key"
	// attemptTime is longer than a browser waits before it sends a request again.
	attemptTime = 10 * time.Minute
	// knownAttempts limits the attempts that a server remembers, and longestAttempt the length of their names.
	knownAttempts, longestAttempt = 4096, 64
)

// attempts remembers writes that have begun. A browser sends a request again by itself if a connection that it had used
// before ends without an answer. The second request must not begin, and the page must learn of the first.
type attempts struct {
	mu    sync.Mutex
	known *cache.LRUExpireCache
}

func newAttempts() *attempts { return &attempts{known: cache.NewLRUExpireCache(knownAttempts)} }

// begin refuses an attempt of a user that has begun before. A request without a name is always new.
func (a *attempts) begin(user string, r *http.Request) error {
	name := r.Header.Get(attemptHeader)
	if name == "" {
		return nil
	}
	if len(name) > longestAttempt {
		return invalid(attemptHeader + " is too long")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.repeated(user, r); err != nil {
		return err
	}
	a.known.Add([2]string{user, name}, true, attemptTime)
	return nil
}

// repeated refuses an attempt that has begun before, and records nothing. It comes before the limits of the user: a
// page that is told to wait sends another attempt.
func (a *attempts) repeated(user string, r *http.Request) error {
	if _, known := a.known.Get([2]string{user, r.Header.Get(attemptHeader)}); known {
		return failure{http.StatusBadGateway, reasonUnknown, "the answer to this write was lost", 0}
	}
	return nil
}
