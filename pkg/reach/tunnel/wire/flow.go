package wire

import (
	"io"
	"time"
)

const (
	// resumeEvery is after how many bytes read both sides may write again. Less than what makes the library tell the other side to pause.
	resumeEvery = 1 << 20
	// resumeAfter is how long nothing may come until then.
	resumeAfter = 5 * time.Millisecond
)

// Flow reads from a connection of a session so that neither side stays paused. The library remembers in one variable that it has told the other side to
// pause and that the other side has told it so: when both happen, one of them is forgotten, and who was paused waits for ever. And one's own writer, which
// waits while the other side is paused, is not woken when that ends. Whoever was paused had sent more than resumeEvery before. So whenever that much
// was read, and nothing is left to read, both may write again; when they are not paused, that means nothing.
type Flow struct {
	since int
}

// pausable is the library's connection.
type pausable interface {
	Resume()   // tells the other side
	OnResume() // as if the other side had told us
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
	case n < len(p): // nothing was left
		goOn()
		f.since = 0
	}
	return n, err
}
