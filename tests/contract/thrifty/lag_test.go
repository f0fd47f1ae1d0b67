package thrifty

import (
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// coreAgent is part of the user agent of Cluster API's core in Drover, and of no other client.
const coreAgent = "cluster.x-k8s.io/"

// lagging returns a transport whose watches by the core show each event later. lag is the delay of a resource.
func lagging(lag func(resource string) time.Duration) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err != nil || !strings.Contains(request.UserAgent(), coreAgent) || !request.URL.Query().Has("watch") {
				return response, err
			}
			if delay := lag(path.Base(request.URL.Path)); delay > 0 {
				response.Body = newLate(response.Body, delay)
			}
			return response, nil
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// late is a body whose content arrives later, in the same order.
type late struct {
	io.Closer
	pieces chan piece
	closed chan struct{}
	close  sync.Once
	rest   []byte
}

type piece struct {
	content []byte
	err     error
	due     time.Time
}

func newLate(body io.ReadCloser, delay time.Duration) *late {
	l := &late{Closer: body, pieces: make(chan piece, 10000), closed: make(chan struct{})}
	go func() {
		for {
			content := make([]byte, 32<<10)
			n, err := body.Read(content)
			select {
			case l.pieces <- piece{content[:n], err, time.Now().Add(delay)}:
			case <-l.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

// Read implements io.Reader.
func (l *late) Read(into []byte) (int, error) {
	if len(l.rest) == 0 {
		select {
		case next := <-l.pieces:
			select {
			case <-time.After(time.Until(next.due)):
			case <-l.closed:
				return 0, io.ErrClosedPipe
			}
			if next.err != nil {
				return copy(into, next.content), next.err
			}
			l.rest = next.content
		case <-l.closed:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(into, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *late) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Closer.Close()
}
