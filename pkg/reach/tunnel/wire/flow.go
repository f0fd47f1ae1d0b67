package wire

import (
	"io"
	"time"
)

const (
	// resumeEvery is after how many bytes read both sides are resumed. It is less than what makes the library send a
	// pause.
	resumeEvery = 1 << 20
	// resumeAfter is how long no data must arrive before that.
	resumeAfter = 5 * time.Millisecond
)

// Flow reads from a connection of a session so that neither side stays paused. The library uses one variable for two
// facts: it paused the other side, and the other side paused it. If both happen, one is lost, and the paused side waits
// forever. The library also does not wake a local writer when the other side's pause ends.
//
// A paused side has sent more than resumeEvery before. So Flow resumes both sides whenever it has read that much and
// nothing is left to read. Resuming a side that is not paused has no effect.
type Flow struct {
	since int
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
