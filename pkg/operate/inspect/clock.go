package inspect

import (
	"net/http"
	"sync"
	"time"
)

// clock remembers what time it is for the API server, which says so in every answer.
type clock struct {
	mu   sync.Mutex
	last time.Time
}

// watch reads the time off answers.
func (c *clock) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil {
			return response, err
		}
		if at, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			c.mu.Lock()
			c.last = at
			c.mu.Unlock()
		}
		return response, nil
	})
}

// now is the time of the last answer, or the given one when no answer has said it.
func (c *clock) now(otherwise time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.IsZero() {
		return otherwise
	}
	return c.last
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
