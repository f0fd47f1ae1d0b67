package tunnel

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// longestWrite limits the bytes of one message, so that other connections get their turn.
const longestWrite = 64 << 10

// stream is one connection through a session. The wrapped connection shares fields between Write and its end without a
// lock. So stream closes it only when nothing writes to it. The same holds when the agent closes it.
//
// A deadline that passes during a read or write ends the connection. All callers that set a deadline then discard the
// connection.
type stream struct {
	session *session
	number  int64
	flow    wire.Flow
	backlog int64 // guarded by the session

	mu       sync.Mutex
	change   sync.Cond
	inner    net.Conn
	readers  int
	writers  int
	cause    error // why writing has ended; nil before
	closed   bool  // closed by us: inner is closed when the last writer returns
	remote   bool  // the agent ended it, and the session closes inner
	closing  bool  // inner is being closed
	deadline [2]timeout
}

// Indexes of the two deadlines.
const (
	reading = iota
	writing
)

type timeout struct {
	at    time.Time
	timer *time.Timer
}

func (t timeout) passed() bool { return !t.at.IsZero() && !time.Now().Before(t.at) }

func newStream(s *session, number int64) *stream {
	c := &stream{session: s, number: number}
	c.change.L = &c.mu
	return c
}

// connect sets the wrapped connection.
func (c *stream) connect(inner net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inner = inner
	c.closeInner()
}

// Read reads from the agent. Its errors name the side that ended the connection.
func (c *stream) Read(p []byte) (int, error) {
	if err := c.enter(reading, &c.readers); err != nil {
		return 0, err
	}
	n, err := c.flow.Read(c.inner, p)
	c.session.taken(c, n)
	cause := c.leave(&c.readers)
	if err == nil || n > 0 {
		return n, nil
	}
	return 0, c.ending(err, cause)
}

// ending returns why nothing more can be read.
func (c *stream) ending(err, cause error) error {
	c.mu.Lock()
	remote := c.remote
	c.mu.Unlock()
	switch {
	case cause != nil && !remote:
		return cause
	case c.session.ended():
		return ErrSessionEnded
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	return fmt.Errorf("the agent ended the connection: %q", err.Error())
}

// isUnread reports whether data has arrived that nothing has read.
func (c *stream) isUnread() bool {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return c.backlog > 0
}

// Write writes to the agent. It blocks while the agent is paused.
func (c *stream) Write(p []byte) (int, error) {
	written := 0
	for {
		c.session.link.Room()
		if err := c.enter(writing, &c.writers); err != nil {
			return written, err
		}
		n, err := c.inner.Write(p[written:min(len(p), written+longestWrite)])
		written += n
		c.flow.Wrote(c.inner, n)
		if cause := c.leave(&c.writers); cause != nil {
			return written, cause
		}
		if err != nil {
			return written, c.session.explain(fmt.Errorf("write through the session: %w", err))
		}
		if written == len(p) {
			return written, nil
		}
	}
}

// enter begins a call, or returns why it cannot begin. Data that arrived before the agent ended the connection can
// still be read.
func (c *stream) enter(way int, count *int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cause != nil && (way == writing || !c.remote):
		return c.cause
	case c.deadline[way].passed():
		return os.ErrDeadlineExceeded
	}
	*count++
	return nil
}

// leave ends a call, and closes the wrapped connection if that waited for the call.
func (c *stream) leave(count *int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	*count--
	c.change.Broadcast()
	c.closeInner()
	return c.cause
}

// closeInner closes the wrapped connection in a new goroutine, because that sends a message to the agent and may take a
// while.
func (c *stream) closeInner() {
	if !c.closed || c.remote || c.closing || c.writers > 0 || c.inner == nil {
		return
	}
	c.closing = true
	c.session.finishing.Go(func() {
		_ = c.inner.Close()
		c.session.forget(c)
		c.mu.Lock()
		c.closing, c.closed = false, false
		c.mu.Unlock()
		c.change.Broadcast()
	})
}

// Close closes the connection.
func (c *stream) Close() error {
	c.endSession()
	c.shut(net.ErrClosed, true)
	c.mu.Lock()
	remote := c.remote
	c.mu.Unlock()
	if remote {
		c.session.forget(c)
	}
	return nil
}

// abort ends the connection when its session ends or a deadline passes.
func (c *stream) abort(cause error) {
	ended := errors.Is(cause, ErrSessionEnded)
	if !ended {
		c.endSession()
	}
	c.shut(cause, !ended)
}

// endSession ends the session of Drover's agent, which has only this connection. Otherwise the agent's session reader
// would close the connection while another goroutine writes to it, and these share fields without a lock.
func (c *stream) endSession() {
	if c.session.registration.Heartbeat > 0 {
		c.session.end(errConnection)
	}
}

// shut prevents further writes and unblocks waiting writers.
func (c *stream) shut(cause error, closeInner bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = cause
		c.closed = closeInner
	}
	c.flow.End()
	c.release()
	c.closeInner()
}

// release unblocks a Write that waits because the agent is paused.
func (c *stream) release() {
	if paused, ok := c.inner.(interface{ OnResume() }); ok && c.writers > 0 {
		paused.OnResume()
	}
}

// remoteCloses is called before the wrapped connection ends on behalf of the agent. It returns when all writers have
// returned.
func (c *stream) remoteCloses() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = fmt.Errorf("the agent ended the connection: %w", net.ErrClosed)
		c.remote = true
	}
	c.flow.End()
	c.await()
}

// settle waits until the wrapped connection is unused. The session has ended.
func (c *stream) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.await()
}

func (c *stream) await() {
	c.release()
	for c.writers > 0 || c.closing {
		c.change.Wait()
	}
}

// SetDeadline sets both deadlines.
func (c *stream) SetDeadline(t time.Time) error {
	c.expire(reading, t)
	c.expire(writing, t)
	return nil
}

// SetReadDeadline sets the deadline of reads. If it passes during a read, the connection ends.
func (c *stream) SetReadDeadline(t time.Time) error {
	c.expire(reading, t)
	return nil
}

// SetWriteDeadline sets the deadline of writes. If it passes during a write, the connection ends.
func (c *stream) SetWriteDeadline(t time.Time) error {
	c.expire(writing, t)
	return nil
}

func (c *stream) expire(way int, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &c.deadline[way]
	d.at = t
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if t.IsZero() {
		return
	}
	d.timer = time.AfterFunc(time.Until(t), func() {
		c.mu.Lock()
		waits := c.readers
		if way == writing {
			waits = c.writers
		}
		due := c.deadline[way].passed() && waits > 0
		c.mu.Unlock()
		if due {
			c.abort(os.ErrDeadlineExceeded)
		}
	})
}

// LocalAddr names the session.
func (c *stream) LocalAddr() net.Addr { return streamAddr(c.session.key) }

// RemoteAddr names the session.
func (c *stream) RemoteAddr() net.Addr { return streamAddr(c.session.key) }

type streamAddr string

func (streamAddr) Network() string  { return "tunnel" }
func (a streamAddr) String() string { return string(a) }
