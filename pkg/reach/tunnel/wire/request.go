package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Headers of requests to Drover's agent. Requests use HTTP/2 over the single connection of a session. A request that
// switches protocols (exec, attach, port-forward) is a POST. Its body is what the client sends after the switch. So
// each has its own flow control in both directions. Only the server sets these headers, and the agent forwards none of
// them.
const (
	// HeaderUpgrade is the requested protocol. HeaderMethod is the method of the original request.
	HeaderUpgrade = "X-Drover-Upgrade"
	HeaderMethod  = "X-Drover-Method"
	// HeaderUpgraded is the protocol that the API server switched to. The other headers of the answer are those of its
	// 101, and the body is the data after it. An answer without HeaderUpgraded is the API server's refusal.
	HeaderUpgraded = "X-Drover-Upgraded"
	// HeaderPrefix is the prefix of all headers of Drover's own.
	HeaderPrefix = "X-Drover-"
)

// Limits of HTTP/2 within a session. The windows of all streams fit into that of their connection, so that unread
// streams do not block others.
const (
	// MaxRequests is the maximum number of concurrent requests.
	MaxRequests = 4000
	// frameSize is the longest frame, in bytes. Its head is negligible at this size, and other streams get their turn.
	frameSize = 64 << 10
	// streamWindow is how many unread bytes one request or answer may have in flight. It also limits the bytes per
	// round trip between server and agent.
	streamWindow = 256 << 10
	// connectionWindow is the window of a connection, in bytes. The standard library uses the same value for clients.
	// The protocol would allow twice as much. But when a request is reset while it is still read, net/http's server
	// returns its window twice. It ends the connection when the sum exceeds 31 bits, after about 4,000 full windows.
	// Then the session is made again.
	connectionWindow = 1 << 30
)

// Limits of the heads of answers, in bytes. The default of net/http is 10 MiB, and each answer in progress holds its
// head. A head above HeadOfConnection may end the connection of all requests, and one above MaxHead ends only its own.
const (
	MaxHead          = 64 << 10
	HeadOfConnection = 1 << 20
)

// HeadSize is the size of a head, in bytes.
func HeadSize(head http.Header) (size int) {
	for name, values := range head {
		for _, value := range values {
			size += len(name) + len(value) + 32 // as HTTP/2 counts
		}
	}
	return size
}

// HTTP2 returns the HTTP/2 settings for sessions and API servers.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: MaxRequests, MaxReadFrameSize: frameSize,
		MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
	}
}

// smallAnswer is the longest answer, in bytes, that is forwarded in one piece. Servers of net/http buffer this much
// until a handler returns.
const smallAnswer = 4 << 10

// LongestHold is how long such an answer is held until it is complete. It is the FlushInterval of a
// httputil.ReverseProxy.
const LongestHold = 20 * time.Millisecond

// PassOn makes httputil.ReverseProxy forward an answer as it arrives, whatever its FlushInterval is. Answers of unknown
// length already behave that way. Short answers are sent in one piece if they complete soon, because each piece costs a
// write and wakes all readers on the way.
func PassOn(response *http.Response) {
	if response.ContentLength > smallAnswer {
		response.ContentLength = -1 // the header still contains the length
	}
}

// EndWithContext makes an answer end with the context of its request. HTTP/2 of net/http misses the end of the context
// while it waits to send the request's body. The reader of the answer would then hang.
//
// The original body is closed only once. On each close, HTTP/2 of net/http returns the window of unread data to the
// connection, and panics when the sum exceeds 31 bits.
func EndWithContext(ctx context.Context, response *http.Response) {
	body := response.Body
	end := sync.OnceFunc(func() { _ = body.Close() })
	response.Body = &endingBody{ReadCloser: body, ctx: ctx, stop: context.AfterFunc(ctx, end), end: end}
}

type endingBody struct {
	io.ReadCloser
	ctx  context.Context // the context of the request that this answers
	stop func() bool
	end  func()
}

// Read returns the cause of the context instead of errors that follow its end.
func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

// Close ends the answer in the background. In HTTP/2 of net/http, Close waits until nothing reads the request's body
// any more. A refused client may send no more of that body until the answer ends, and the answer ends only after Close
// has returned.
func (b *endingBody) Close() error {
	b.stop()
	go b.end()
	return nil
}
