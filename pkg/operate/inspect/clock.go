package inspect

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// clock remembers the API server's time, which every answer contains.
type clock struct {
	mu   sync.Mutex
	last time.Time
}

// watch reads the time from answers.
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

// now returns the time of the last answer, or otherwise if no answer had one.
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

// readOnly refuses every request that could change something.
type readOnly struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		return nil, fmt.Errorf("%s %s: this program only reads", request.Method, request.URL.Path)
	}
	return r.RoundTripper.RoundTrip(request)
}
