package clusterproxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// recorder is the writer of an answer. It records status and bytes.
type recorder struct {
	http.ResponseWriter
	status   int // 0 before the answer begins
	hijacked bool
	sent     atomic.Int64
	received atomic.Int64
	// until ends with a long-running request. An upgraded connection then closes.
	until context.Context
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader records the status. It drops interim answers of a cluster, because their headers would pass unchecked. A
// protocol switch uses Hijack instead.
func (r *recorder) WriteHeader(code int) {
	if r.hijacked || code < http.StatusOK {
		return
	}
	if r.status == 0 {
		r.status = code
	}
	r.ResponseWriter.WriteHeader(code)
}

// Write counts bytes.
func (r *recorder) Write(p []byte) (int, error) {
	if r.hijacked {
		return 0, http.ErrHijacked
	}
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.sent.Add(int64(n))
	return n, err
}

// Hijack hands the connection to an upgraded request and continues counting.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	r.hijacked, r.status = true, http.StatusSwitchingProtocols
	if r.until != nil {
		// httputil closes the connection to the cluster. A client that is silent would keep its own.
		context.AfterFunc(r.until, func() { _ = conn.Close() })
	}
	return &countingConn{Conn: conn, recorder: r}, buffered, nil
}

// countingConn counts bytes from and to a client after an upgrade.
type countingConn struct {
	net.Conn
	recorder *recorder
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.recorder.received.Add(int64(n))
	return n, err
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.recorder.sent.Add(int64(n))
	return n, err
}

// CloseWrite ends the sending direction, if the connection supports that.
func (c *countingConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed // ends both directions
}

// countingBody counts bytes from a client.
type countingBody struct {
	io.ReadCloser
	recorder *recorder
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.recorder.received.Add(int64(n))
	return n, err
}
