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

// linger is how long a closed connection may take to send what was written before.
const linger = time.Second

// upgrade sends a request that switches protocols, as a stream of the shared connection.
func (t *agentTransport) upgrade(conn *http.ClientConn, request *http.Request) (*http.Response, error) {
	if request.Body != nil && request.Body != http.NoBody {
		closeBody(request)
		return refusal(request, http.StatusBadRequest, "BadRequest",
			"a request that changes to another protocol must not have a body"), nil
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

// forOneHop removes the hop-by-hop headers. It keeps impersonation headers even if Connection lists them.
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

// outgoing is a request body that is written while it is sent. It has no buffer: a write returns when HTTP/2 has read
// it.
type outgoing struct {
	*io.PipeReader
	writer *io.PipeWriter
	done   chan struct{} // all data was sent, or never will be
	once   sync.Once
}

func newOutgoing() *outgoing {
	reader, writer := io.Pipe()
	return &outgoing{PipeReader: reader, writer: writer, done: make(chan struct{})}
}

func (o *outgoing) leave() { o.once.Do(func() { close(o.done) }) }

// Read is called by HTTP/2 after it has sent the previous data.
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

// upgradedConn is a connection after it has switched protocols.
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

// CloseWrite ends the sending direction. Reading continues.
func (c *upgradedConn) CloseWrite() error {
	c.sent.finish()
	return nil
}

// Close ends both directions. Data written before is still sent, for at most linger.
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
