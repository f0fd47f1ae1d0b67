package clusterproxy

import (
	"io"
	"net/http"
	"sync"

	"github.com/drover-io/drover/pkg/reach/unread"
)

// What a stream holds in this process while nothing of it is read. TestUnread_Memory measures it.
var (
	// unreadAnswer is the window of an answer in the tunnel (wire.HTTP2), and buffers for copying.
	unreadAnswer = unread.Kind{Holds: 320 << 10}
	// unreadUpgrade is one frame to the cluster, and a buffer for copying. A program in the cluster may read its input
	// late. So only the budgets end such a stream.
	unreadUpgrade = unread.Kind{Holds: 96 << 10, Patient: true}
)

// supervise ends the request when its client stops reading. Call done at the end of the request.
func (e *exchange) supervise() (done func()) {
	e.answer = e.proxy.options.Unread.Writer(e.w.ResponseWriter, e.tenant(), unreadAnswer)
	e.w.ResponseWriter = e.answer
	if !e.long {
		return func() {} // it has its own deadline
	}
	return e.answer.Done
}

// tenant is the namespace of the cluster, or its identifier if it has none.
func (e *exchange) tenant() string {
	if namespace, _, ok := e.proxy.options.Lookup(e.at.Cluster); ok {
		return namespace
	}
	return e.at.Cluster
}

// superviseAnswer prepares the body of an answer: the tunnel's memory for it is free as soon as the request must end.
func (e *exchange) superviseAnswer(answer *http.Response) {
	body := &closedOnce{answer.Body, sync.OnceValue(answer.Body.Close)}
	e.answer.Free = func() { _ = body.Close() }
	if both, ok := answer.Body.(io.ReadWriteCloser); ok && answer.StatusCode == http.StatusSwitchingProtocols {
		answer.Body = e.proxy.options.Unread.Body(&bothWays{body, both}, e.tenant(), unreadUpgrade)
		return
	}
	answer.Body = body
}

// closedOnce passes on only the first Close. HTTP/2 of net/http counts each (see wire.EndWithContext).
type closedOnce struct {
	io.ReadCloser
	end func() error
}

// Close implements io.Closer.
func (c *closedOnce) Close() error { return c.end() }

// bothWays is the body of an answer that switches protocols.
type bothWays struct {
	*closedOnce
	to io.Writer
}

// Write implements io.Writer.
func (b *bothWays) Write(p []byte) (int, error) { return b.to.Write(p) }

// CloseWrite ends the sending direction, if the connection supports that.
func (b *bothWays) CloseWrite() error {
	if half, ok := b.to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported // ends both directions
}
