package stage

import (
	"sync"
	"testing"
)

// notebook writes to the log of a test until the test ends. Goroutines that Drover does not wait for, such as those of
// tunnels, log later. A test that has ended would panic.
type notebook struct {
	mu    sync.Mutex
	t     *testing.T
	ended bool
}

func newNotebook(t *testing.T) *notebook {
	t.Helper()
	n := &notebook{t: t}
	t.Cleanup(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ended = true
	})
	return n
}

// Write implements io.Writer.
func (n *notebook) Write(text []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return len(text), nil
	}
	return n.t.Output().Write(text)
}

// Logf writes a line.
func (n *notebook) Logf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ended {
		n.t.Helper()
		n.t.Logf(format, args...)
	}
}
