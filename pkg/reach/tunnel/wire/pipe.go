package wire

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// PipeBuffer is the buffer size of each direction of a Pipe, in bytes.
const PipeBuffer = 64 << 10

// Pipe returns the two ends of an in-process connection. Each direction has a buffer. Deadlines work as on a network
// connection. Data written before an end was closed can still be read.
//
// The first end is for a session's Dialer. It supports io.Copy without an extra copy. The copy from it ends before the
// copy to it ends. So nothing writes to the session's connection when that is closed.
func Pipe() (dialed *Dialed, accepted net.Conn) {
	out, in := newHalf(), newHalf()
	d := &Dialed{end: end{in: in, out: out}}
	d.idle.L = &d.mu
	return d, &end{in: out, out: in}
}

// half is one direction. At most one goroutine reads it and one writes it at a time.
type half struct {
	mu     sync.Mutex
	change sync.Cond

	buffer []byte // a ring, allocated by the first write
	first  int    // index of the buffered data
	length int    // length of the buffered data

	written, unread error // why no more data comes; why reading has ended
	read, write     deadline
}

// deadline wakes waiting calls. They compare the time, so a late timer has no effect.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newHalf() *half {
	h := &half{}
	h.change.L = &h.mu
	return h
}

func (h *half) set(d *deadline, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.at = at
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if !at.IsZero() {
		d.timer = time.AfterFunc(time.Until(at), func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.change.Broadcast()
		})
	}
	h.change.Broadcast()
}

// filled waits for data and returns a part of the ring with data. The part stays unchanged until take is called.
func (h *half) filled() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.unread != nil:
			return nil, h.unread
		case h.read.passed():
			return nil, os.ErrDeadlineExceeded
		case h.length > 0:
			return h.buffer[h.first:min(h.first+h.length, len(h.buffer))], nil
		case h.written != nil:
			return nil, h.written
		}
		h.change.Wait()
	}
}

// take frees data that was read.
func (h *half) take(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.length -= n
	h.first = (h.first + n) % len(h.buffer)
	h.change.Broadcast()
}

// free waits for room and returns a free part of the ring. The part is reserved until put is called.
func (h *half) free() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.written != nil:
			return nil, h.written
		case h.unread != nil:
			return nil, io.ErrClosedPipe
		case h.write.passed():
			return nil, os.ErrDeadlineExceeded
		}
		if h.buffer == nil {
			h.buffer = make([]byte, PipeBuffer)
		}
		if h.length == 0 {
			h.first = 0 // the ring is empty, so use all of it in one piece
		}
		if h.length < len(h.buffer) {
			next := (h.first + h.length) % len(h.buffer)
			if next < h.first {
				return h.buffer[next:h.first], nil
			}
			return h.buffer[next:], nil
		}
		h.change.Wait()
	}
}

// put adds data that was written into the part from free.
func (h *half) put(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.length += n
	h.change.Broadcast()
}

// finish ends writing, so that the reader sees the end.
func (h *half) finish(reason error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.written == nil {
		h.written = reason
	}
	h.change.Broadcast()
}

// abandon ends reading, so that the writer fails.
func (h *half) abandon(reason error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unread == nil {
		h.unread = reason
	}
	h.change.Broadcast()
}

// end is one end of a Pipe.
type end struct{ in, out *half }

func (e *end) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	data, err := e.in.filled()
	if err != nil {
		return 0, err
	}
	n := copy(p, data)
	e.in.take(n)
	return n, nil
}

func (e *end) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		room, err := e.out.free()
		if err != nil {
			return written, err
		}
		n := copy(room, p[written:])
		e.out.put(n)
		written += n
	}
	return written, nil
}

func (e *end) Close() error {
	e.out.finish(io.EOF)
	e.in.abandon(io.ErrClosedPipe)
	return nil
}

func (e *end) SetDeadline(t time.Time) error {
	e.in.set(&e.in.read, t)
	e.out.set(&e.out.write, t)
	return nil
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.in.set(&e.in.read, t)
	return nil
}

func (e *end) SetWriteDeadline(t time.Time) error {
	e.out.set(&e.out.write, t)
	return nil
}

func (e *end) LocalAddr() net.Addr  { return pipeAddr{} }
func (e *end) RemoteAddr() net.Addr { return pipeAddr{} }

// pipeAddr has the form HOST:PORT, because servers and proxies split off the port.
type pipeAddr struct{}

func (pipeAddr) Network() string { return AgentNetwork }
func (pipeAddr) String() string  { return "127.0.0.1:0" }

// Dialed is the end of a Pipe that a session copies from and to.
type Dialed struct {
	end

	// Room waits until the session can take more data. nil means always. It is set before copying starts.
	Room func()

	mu      sync.Mutex
	idle    sync.Cond
	copying bool      // from this end to the session
	session io.Reader // the session's connection, once known
}

// WriteTo copies what the accepted end writes to the session's connection.
func (d *Dialed) WriteTo(w io.Writer) (int64, error) {
	d.setCopying(true)
	defer d.setCopying(false)
	var total int64
	for {
		data, err := d.in.filled()
		if err == io.EOF { //nolint:errorlint // what a reader returns at its end
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if d.Room != nil {
			d.Room()
		}
		n, err := w.Write(data)
		d.in.take(n)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
}

func (d *Dialed) setCopying(copying bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.copying = copying
	d.idle.Broadcast()
}

// ReadFrom copies from the session's connection to the accepted end. When that end is closed, the rest is discarded,
// and what it wrote before is still sent. ReadFrom returns after the session's connection has ended and nothing writes
// to it.
func (d *Dialed) ReadFrom(r io.Reader) (int64, error) {
	d.mu.Lock()
	d.session = r
	d.mu.Unlock()
	var total int64
	var flow Flow
	for {
		room, err := d.out.free()
		refused := err != nil
		if refused {
			room = make([]byte, 512)
		}
		n, err := flow.Read(r, room)
		if !refused {
			d.out.put(n)
			total += int64(n)
		}
		if err == nil {
			continue
		}
		d.Stop()
		if err == io.EOF { //nolint:errorlint // what a reader returns at its end
			err = nil
		}
		return total, err
	}
}

// Closed reports whether this end was closed.
func (d *Dialed) Closed() bool {
	d.out.mu.Lock()
	defer d.out.mu.Unlock()
	return d.out.written != nil
}

// Stop closes this end and waits until nothing is copied from it.
func (d *Dialed) Stop() {
	_ = d.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	// A paused connection blocks its writer even after it is closed.
	if paused, ok := d.session.(interface{ OnResume() }); ok {
		paused.OnResume()
	}
	for d.copying {
		d.idle.Wait()
	}
}
