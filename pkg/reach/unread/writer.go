package unread

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Writer returns an answer that a Ledger ends when its client stops reading. It removes the write deadline of the
// listener, which is for complete answers. Call Done after the last write.
func (l *Ledger) Writer(w http.ResponseWriter, tenant string, kind Kind) *Writer {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // some writers support no deadlines
	a := &Writer{ResponseWriter: w, control: control, kind: kind}
	a.stream = l.Stream(tenant, kind, a.end)
	return a
}

// Writer is an answer.
type Writer struct {
	http.ResponseWriter

	control *http.ResponseController
	kind    Kind
	stream  *Stream
	source  *source
}

// From returns the body to copy into the answer. It frees the memory of the body as soon as the Ledger ends the answer.
// If the body is also an io.Writer, because both sides have changed the protocol, the Ledger supervises writes to it as
// the given Kind. Its reader is another program, which may take its time, so that should be a patient Kind. Call From
// before the first write.
func (w *Writer) From(body io.ReadCloser, writes Kind) io.ReadCloser {
	w.source = &source{body, sync.OnceValue(body.Close)}
	to, ok := body.(io.Writer)
	if !ok {
		return w.source
	}
	b := &both{source: w.source, to: to}
	b.stream = w.stream.ledger.Stream(w.stream.tenant, writes, func() { go func() { _ = b.Close() }() })
	return b
}

// Hold raises how many bytes the answer may hold. Call it before the first write.
func (w *Writer) Hold(bytes int64) {
	w.kind.Holds = max(w.kind.Holds, bytes)
	w.stream.kind = w.kind
}

// Unwrap lets http.ResponseController set deadlines.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write writes a part of the answer.
func (w *Writer) Write(p []byte) (n int, err error) {
	err = w.stream.Do(func() error {
		n, err = w.ResponseWriter.Write(p)
		return err
	})
	return n, err
}

// FlushError sends what was written. It can block like Write.
func (w *Writer) FlushError() error { return w.stream.Do(w.control.Flush) }

// Hijack hands the connection to the caller. Writes to it are supervised, too.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	below, buffered, err := w.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	c := &conn{Conn: below}
	c.stream = w.stream.ledger.Stream(w.stream.tenant, w.kind, func() {
		c.cut()
		w.free()
	})
	return c, buffered, nil
}

// Done limits the time for the rest of the answer, which the server sends after its handler has returned.
func (w *Writer) Done() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.stream.ledger.options.Timeout))
}

func (w *Writer) end() {
	_ = w.control.SetWriteDeadline(time.Unix(1, 0)) // unblocks the write
	w.free()
}

// free works in the background, because the other side may be slow, too. A write over HTTP/2 stays blocked while the
// client does not read its whole connection. Until the server ends that, the memory must already be free.
func (w *Writer) free() {
	if w.source != nil {
		go func() { _ = w.source.Close() }()
	}
}

// conn is a connection that was taken over from a server.
type conn struct {
	net.Conn
	stream *Stream
}

func (c *conn) Write(p []byte) (n int, err error) {
	err = c.stream.Do(func() error {
		n, err = c.Conn.Write(p)
		return err
	})
	return n, err
}

// CloseWrite ends the sending direction, if the connection supports that.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed // ends both directions
}

// cut ends the connection. Closing TLS waits to send an alert, so cut first closes the connection below it.
func (c *conn) cut() {
	if secured, ok := c.Conn.(interface{ NetConn() net.Conn }); ok {
		_ = secured.NetConn().Close()
		return
	}
	_ = c.Conn.Close()
}

// source is the body that becomes an answer.
type source struct {
	io.ReadCloser
	end func() error
}

// Close passes on only the first call. HTTP/2 of net/http counts each (see wire.EndWithContext).
func (s *source) Close() error { return s.end() }

// both is a source after a change of protocols. Writes go to the other side.
type both struct {
	*source
	to     io.Writer
	stream *Stream
}

// Write implements io.Writer.
func (b *both) Write(p []byte) (n int, err error) {
	err = b.stream.Do(func() error {
		n, err = b.to.Write(p)
		return err
	})
	return n, err
}

// CloseWrite ends the sending direction, if the other side supports that.
func (b *both) CloseWrite() error {
	if half, ok := b.to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed // ends both directions
}
