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

// Reasons for which a Link ends itself.
var (
	// ErrSilent means that the other side gave no sign of life.
	ErrSilent = errors.New("the peer was silent for too long")
	// ErrStalled means that the other side does not read.
	ErrStalled = errors.New("the peer does not read")
)

// slowLink is the slowest link, in bytes per second, that survives a large transfer. Signs of life and their answers
// queue behind that transfer.
const slowLink = 64 << 10

const (
	// longestQueue is the number of waiting bytes from which Room blocks.
	longestQueue = 64 << 10
	// longestSend is the most bytes sent at once, within WriteStall.
	longestSend = 64 << 10
)

// Link is the network connection below a session. During the handshake it passes everything through. After Watch it
// ends itself when the other side is silent, and ignores the deadlines that others set.
type Link struct {
	net.Conn

	options LinkOptions
	start   time.Time
	silence atomic.Int64 // nanoseconds; 0 before Watch
	heard   atomic.Int64 // time of the last received bytes, as nanoseconds since start
	unheard atomic.Int64 // bytes written since then

	mu      sync.Mutex
	change  sync.Cond
	reason  error
	queue   []byte // bytes to send
	sending bool   // a goroutine sends the queue
}

// LinkOptions are options of a Link.
type LinkOptions struct {
	// Patient allows longer silence after large writes. It is for the side that sends pings and waits for their
	// answers.
	Patient bool
	// Inspect sees incoming bytes and may change them in place. Its error ends the link. The reader calls it, after
	// Watch.
	Inspect func([]byte) error
	// Count is called with the bytes that came in and went out.
	Count func(in, out int)
}

// NewLink wraps a connection.
func NewLink(conn net.Conn, options LinkOptions) *Link {
	l := &Link{Conn: conn, options: options, start: time.Now()}
	l.change.L = &l.mu
	return l
}

// Watch starts the supervision of the link after the handshake. silence is the longest time without incoming bytes.
func (l *Link) Watch(silence time.Duration) {
	l.heardNow()
	l.silence.Store(int64(silence))
}

func (l *Link) heardNow() {
	l.heard.Store(int64(time.Since(l.start)))
	l.unheard.Store(0)
}

// Quiet is the time since the last incoming bytes.
func (l *Link) Quiet() time.Duration { return time.Since(l.start) - time.Duration(l.heard.Load()) }

// Reason is why the link has ended, or nil.
func (l *Link) Reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// End ends the link for a reason. The first reason is kept.
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
	// Closing TLS sends an alert, which may take seconds on a dead connection. Close the connection below it first.
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

// Read reads incoming bytes. Silence counts only while a read waits.
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

// limit is how long a read may wait now.
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

// Write queues bytes and returns immediately. The reader of a session also writes, to pause the other side. If it had
// to wait, and the other side's reader did too, both would deadlock. Code that sends much calls Room first.
//
// After the link has ended, Write reports success. The reader reports the end of the link. Otherwise the protocol above
// would log an error for each connection.
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

// queues recycles the buffers of links that have nothing to send. Few of the links send at a time.
var queues = sync.Pool{New: func() any { return new([]byte) }}

// largestQueue is the largest buffer that is recycled, in bytes: it holds what Room allows plus one more write.
const largestQueue = 4 * longestQueue

func keepQueue(queue []byte) {
	if cap(queue) > 0 && cap(queue) <= largestQueue {
		queue = queue[:0]
		queues.Put(&queue)
	}
}

// Room waits until the queue is short or the link has ended.
func (l *Link) Room() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.reason == nil && len(l.queue) >= longestQueue {
		l.change.Wait()
	}
}

// Settle waits until everything was sent or the link has ended, but no longer than the given time.
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

// next returns the next batch to send. used is the previous batch, whose memory is reused.
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

// send sends the queue until it is empty.
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

// failed ends the link and returns its reason, which may be an earlier error.
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
