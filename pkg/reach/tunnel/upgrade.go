package tunnel

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// linger is how long what was written before a connection was closed may take to leave.
const linger = time.Second

// upgrade sends a request that changes to another protocol, as a stream of the connection that all requests share.
func (t *agentTransport) upgrade(conn *http.ClientConn, request *http.Request) (*http.Response, error) {
	if request.Body != nil && request.Body != http.NoBody {
		closeBody(request)
		return refusal(request, http.StatusBadRequest, "BadRequest", "a request that changes to another protocol must not have a body"), nil
	}
	method, protocol := request.Method, request.Header.Get("Upgrade")
	if method == "" {
		method = http.MethodGet
	}
	sent := newOutgoing()
	out := rewrite(request, "http", wire.AgentHost)
	out.Method, out.Body, out.ContentLength, out.GetBody = http.MethodPost, sent, -1, nil
	forOneHop(out.Header)
	out.Header.Set(wire.HeaderUpgrade, protocol)
	out.Header.Set(wire.HeaderMethod, method)
	response, err := conn.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	wire.EndWithContext(request.Context(), response)
	upgraded := response.Header.Get(wire.HeaderUpgraded)
	response.Header.Del(wire.HeaderUpgraded)
	if upgraded == "" {
		sent.finish()
		return response, nil
	}
	response.Header.Set("Connection", "Upgrade")
	response.Header.Set("Upgrade", upgraded)
	response.Status, response.StatusCode = "101 Switching Protocols", http.StatusSwitchingProtocols
	response.Proto, response.ProtoMajor, response.ProtoMinor = "HTTP/1.1", 1, 1
	response.ContentLength, response.Uncompressed = 0, false
	response.Body = &upgradedConn{received: response.Body, sent: sent}
	return response, nil
}

// forOneHop takes out what Connection says is for the next hop alone. For whom a request is made is not, whatever it says.
func forOneHop(header http.Header) {
	for _, value := range header.Values("Connection") {
		for name := range strings.SplitSeq(value, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); !strings.HasPrefix(name, "Impersonate-") {
				header.Del(name)
			}
		}
	}
	for _, name := range []string{"Connection", "Upgrade", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding"} {
		header.Del(name)
	}
}

// outgoing is the body of a request, which is written while it is sent. Nothing is kept in between: a write returns when HTTP/2 has taken it.
type outgoing struct {
	*io.PipeReader
	writer *io.PipeWriter
	done   chan struct{} // all that was written has left, or never will
	once   sync.Once
}

func newOutgoing() *outgoing {
	reader, writer := io.Pipe()
	return &outgoing{PipeReader: reader, writer: writer, done: make(chan struct{})}
}

func (o *outgoing) leave() { o.once.Do(func() { close(o.done) }) }

// Read is called by HTTP/2, once what it read before has been sent.
func (o *outgoing) Read(p []byte) (int, error) {
	n, err := o.PipeReader.Read(p)
	if err != nil {
		o.leave()
	}
	return n, err
}

// Close is called by HTTP/2 when the request has ended.
func (o *outgoing) Close() error {
	o.leave()
	return o.PipeReader.Close()
}

// finish ends the body.
func (o *outgoing) finish() { _ = o.writer.Close() }

// upgradedConn is a connection that has changed to another protocol.
type upgradedConn struct {
	received io.ReadCloser
	sent     *outgoing
	closed   atomic.Bool
}

func (c *upgradedConn) Read(p []byte) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	return c.received.Read(p)
}

func (c *upgradedConn) Write(p []byte) (int, error) { return c.sent.writer.Write(p) }

// CloseWrite says that no more is sent; what comes can still be read.
func (c *upgradedConn) CloseWrite() error {
	c.sent.finish()
	return nil
}

// Close ends both directions. What was written before is sent, unless nobody takes it.
func (c *upgradedConn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.sent.finish()
	go func() {
		timer := time.NewTimer(linger)
		defer timer.Stop()
		select {
		case <-c.sent.done:
		case <-timer.C:
		}
		_ = c.received.Close()
	}()
	return nil
}
