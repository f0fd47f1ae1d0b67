package wire

import (
	"io"
	"sync"
	"time"
)

const (
	// resumeEvery is after how many bytes read both sides are resumed. It is less than what makes the library send a
	// pause.
	resumeEvery = 1 << 20
	// resumeAfter is how long no data must arrive before that. It is also the first delay after many bytes were
	// written.
	resumeAfter = 5 * time.Millisecond
	// longestResumeDelay bounds the delay after many bytes were written. It doubles each time.
	longestResumeDelay = 10 * time.Second
	// resumesAfterWrites is how often both sides are resumed after many bytes were written: for about ten minutes.
	resumesAfterWrites = 70
)

// Flow reads from a connection of a session, and counts the writes to it, so that neither side stays paused. The
// library uses one variable for two facts: it paused the other side, and the other side paused it. If both happen, one
// is lost, and the paused side waits forever. The library also does not wake a local writer when its own pause of the
// other side ends.
//
// A paused side has sent or received more than resumeEvery before. So Flow resumes both sides whenever it has read that
// much and nothing is left to read. When it has written that much, it cannot see when the other side has read it. So it
// resumes both sides repeatedly, at growing intervals. Resuming a side that is not paused has no effect, and a side
// that still has too much to read pauses the other again.
type Flow struct {
	since int // bytes read since the last resume; used by the reader

	mu      sync.Mutex
	wrote   int // bytes written since the last series of resumes began
	resumes int // resumes of the current series
	next    *time.Timer
	ended   bool
}

// pausable is the library's connection.
type pausable interface {
	Resume()   // resumes the other side
	OnResume() // acts as if the other side had sent resume
}

// Read reads from a connection. One goroutine calls it at a time.
func (f *Flow) Read(from io.Reader, p []byte) (int, error) {
	conn, ok := from.(pausable)
	if !ok || f.since < resumeEvery {
		n, err := from.Read(p)
		f.since += n
		return n, err
	}
	goOn := func() {
		conn.Resume()
		conn.OnResume()
	}
	nothingComes := time.AfterFunc(resumeAfter, goOn)
	n, err := from.Read(p)
	switch {
	case !nothingComes.Stop():
		f.since = n
	case n < len(p): // nothing is left
		goOn()
		f.since = 0
	}
	return n, err
}

// Wrote is called after n bytes were written to the connection.
func (f *Flow) Wrote(to io.Writer, n int) {
	conn, ok := to.(pausable)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrote += n
	if f.wrote < resumeEvery || f.ended {
		return
	}
	f.wrote, f.resumes = 0, 0
	if f.next != nil {
		f.next.Stop()
	}
	f.next = time.AfterFunc(resumeAfter, func() { f.resumeAgain(conn) })
}

// resumeAgain resumes both sides, and plans the next time.
func (f *Flow) resumeAgain(conn pausable) {
	conn.Resume()
	conn.OnResume()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumes++
	if !f.ended && f.resumes < resumesAfterWrites {
		f.next.Reset(min(resumeAfter<<min(f.resumes, 30), longestResumeDelay))
	}
}

// End is called when the connection ends.
func (f *Flow) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	if f.next != nil {
		f.next.Stop()
	}
}
