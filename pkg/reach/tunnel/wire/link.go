package wire

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Reasons for which a Link ends by itself.
var (
	// ErrSilent: the other side gave no sign of life.
	ErrSilent = errors.New("the other side was silent for too long")
	// ErrStalled: what was sent was not taken.
	ErrStalled = errors.New("the other side takes nothing")
)

// slowLink is the slowest link, in bytes per second, for which a session is kept while much is being sent: signs of life are behind
// that, and so are the answers to them.
const slowLink = 64 << 10

const (
	// longestQueue is how much may wait to be sent for there to be room for more, in bytes.
	longestQueue = 64 << 10
	// longestSend is how much is sent at once, within WriteStall.
	longestSend = 64 << 10
)

// Link is the network connection below a session. During the handshake it is the connection that it was given. From Watch on it
// ends itself when the other side is silent, and the deadlines that others set mean nothing.
type Link struct {
	net.Conn

	options LinkOptions
	start   time.Time
	silence atomic.Int64 // nanoseconds; 0 before Watch
	heard   atomic.Int64 // when something came last, as nanoseconds since start
	unheard atomic.Int64 // bytes written since then

	mu      sync.Mutex
	change  sync.Cond
	reason  error
	queue   []byte // what is to be sent
	sending bool   // a goroutine sends it
}

// LinkOptions say what a Link does besides.
type LinkOptions struct {
	// Patient allows for silence while much was sent. It is for the side whose signs of life are answered by the other.
	Patient bool
	// Inspect sees what comes in, and may change it in place; its error ends the link. It is called by the reader, from Watch on.
	Inspect func([]byte) error
	// Count is told how many bytes came in and went out.
	Count func(in, out int)
}

// NewLink wraps a connection.
func NewLink(conn net.Conn, options LinkOptions) *Link {
	l := &Link{Conn: conn, options: options, start: time.Now()}
	l.change.L = &l.mu
	return l
}

// Watch begins to watch over the link, once the handshake is over: silence is for how long nothing may come in.
func (l *Link) Watch(silence time.Duration) {
	l.heardNow()
	l.silence.Store(int64(silence))
}

func (l *Link) heardNow() {
	l.heard.Store(int64(time.Since(l.start)))
	l.unheard.Store(0)
}

// Quiet is for how long nothing has come in.
func (l *Link) Quiet() time.Duration { return time.Since(l.start) - time.Duration(l.heard.Load()) }

// Reason is why the link has ended; nil while it has not.
func (l *Link) Reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// End ends the link for a reason; the first one counts.
func (l *Link) End(reason error) {
	l.mu.Lock()
	first := l.reason == nil
	if first {
		l.reason = reason
	}
	l.mu.Unlock()
	l.change.Broadcast()
	if !first {
		return
	}
	// TLS says goodbye when it is closed, which may take seconds when nobody listens.
	if secured, ok := l.Conn.(interface{ NetConn() net.Conn }); ok {
		_ = secured.NetConn().Close()
	}
	_ = l.Conn.Close()
}

// Close ends the link.
func (l *Link) Close() error {
	l.End(net.ErrClosed)
	return nil
}

// Read reads what comes in. Silence counts while something is waited for only: who does not read hears nothing.
func (l *Link) Read(p []byte) (int, error) {
	if l.silence.Load() == 0 {
		return l.Conn.Read(p)
	}
	begun := time.Now()
	for {
		limit := l.limit()
		if err := l.Conn.SetReadDeadline(begun.Add(limit)); err != nil {
			return 0, l.failed(err)
		}
		n, err := l.Conn.Read(p)
		if n > 0 {
			return n, l.received(p[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if l.limit() > limit {
				continue
			}
			err = ErrSilent
		}
		if err != nil {
			return 0, l.failed(err)
		}
	}
}

// limit is for how long a read may wait now.
func (l *Link) limit() time.Duration {
	limit := time.Duration(l.silence.Load())
	if l.options.Patient {
		limit += time.Duration(l.unheard.Load()) * time.Second / slowLink
	}
	return min(limit, max(StockSilence, time.Duration(l.silence.Load())))
}

func (l *Link) received(p []byte) error {
	l.heardNow()
	if l.options.Count != nil {
		l.options.Count(len(p), 0)
	}
	if l.options.Inspect == nil {
		return nil
	}
	if err := l.options.Inspect(p); err != nil {
		return l.failed(err)
	}
	return nil
}

// Write has bytes sent and does not wait for that. The reader of a session writes, too: it tells the other side to pause. If it waited while the other
// side takes nothing, and that side's reader did the same, both would wait for ever. Who has much to send asks for Room before.
//
// When the link has ended it says that all was sent: nobody hears it, the reader tells of the end, and the protocol above would otherwise complain
// once per connection.
func (l *Link) Write(p []byte) (int, error) {
	if l.silence.Load() == 0 {
		return l.Conn.Write(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason != nil {
		return len(p), nil // see above
	}
	if l.queue == nil {
		l.queue = *queues.Get().(*[]byte)
	}
	l.queue = append(l.queue, p...)
	if !l.sending {
		l.sending = true
		go l.send()
	}
	return len(p), nil
}

// queues are those of links that have nothing to send. There are many more links than of these that send at a time, and what much was sent with is not made
// anew for each piece of the next.
var queues = sync.Pool{New: func() any { return new([]byte) }}

// largestQueue is what is kept of them, in bytes: what Room lets wait, and one piece that comes then.
const largestQueue = 4 * longestQueue

func keepQueue(queue []byte) {
	if cap(queue) > 0 && cap(queue) <= largestQueue {
		queue = queue[:0]
		queues.Put(&queue)
	}
}

// Room waits until what is to be sent has become little, or the link has ended.
func (l *Link) Room() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.reason == nil && len(l.queue) >= longestQueue {
		l.change.Wait()
	}
}

// Settle waits until all was sent or the link has ended, at most for a time.
func (l *Link) Settle(longest time.Duration) {
	late := false
	timer := time.AfterFunc(longest, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		late = true
		l.change.Broadcast()
	})
	defer timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.reason == nil && l.sending && !late {
		l.change.Wait()
	}
}

// next is what is to be sent next; used is what was sent before, whose memory is used again.
func (l *Link) next(used []byte) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.change.Broadcast()
	batch := l.queue
	l.queue = used[:0]
	if len(batch) == 0 || l.reason != nil {
		keepQueue(batch)
		keepQueue(used)
		l.sending, l.queue = false, nil
		return nil, false
	}
	return batch, true
}

// send sends what there is.
func (l *Link) send() {
	for batch, more := l.next(nil); more; batch, more = l.next(batch) {
		for part := range slices.Chunk(batch, longestSend) {
			l.sendNow(part)
		}
	}
}

func (l *Link) sendNow(p []byte) {
	if l.Reason() != nil {
		return
	}
	if err := l.Conn.SetWriteDeadline(time.Now().Add(WriteStall)); err != nil {
		_ = l.failed(err)
		return
	}
	n, err := l.Conn.Write(p)
	l.unheard.Add(int64(n))
	if l.options.Count != nil {
		l.options.Count(0, n)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = ErrStalled
	}
	if err != nil {
		_ = l.failed(err)
	}
}

// failed ends the link and returns why it ended, which may have been something else before.
func (l *Link) failed(err error) error {
	l.End(err)
	return l.Reason()
}

// SetDeadline sets both deadlines of the handshake.
func (l *Link) SetDeadline(t time.Time) error {
	if l.silence.Load() != 0 {
		return nil
	}
	return l.Conn.SetDeadline(t)
}

// SetReadDeadline sets the deadline for reads of the handshake.
func (l *Link) SetReadDeadline(t time.Time) error {
	if l.silence.Load() != 0 {
		return nil
	}
	return l.Conn.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline for writes of the handshake.
func (l *Link) SetWriteDeadline(t time.Time) error {
	if l.silence.Load() != 0 {
		return nil
	}
	return l.Conn.SetWriteDeadline(t)
}
