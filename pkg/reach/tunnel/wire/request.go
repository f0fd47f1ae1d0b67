package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Requests to our agent go as HTTP/2 over the one connection of a session. One that changes to another protocol (exec, attach, port-forward) is a POST
// whose body is what the client sends once that has changed, and so each has its own flow control in both directions. The headers say what it
// is about; only the server sets them, and the agent passes none of them on.
const (
	// HeaderUpgrade is the protocol that is asked for, HeaderMethod the method with which.
	HeaderUpgrade = "X-Drover-Upgrade"
	HeaderMethod  = "X-Drover-Method"
	// HeaderUpgraded is the protocol to which the API server has changed. The other headers of the answer are those of its 101, and the body is
	// what comes afterwards. An answer without it is the API server's refusal.
	HeaderUpgraded = "X-Drover-Upgraded"
	// HeaderPrefix is what all headers of our own begin with.
	HeaderPrefix = "X-Drover-"
)

// HTTP/2 within a session. All streams that there may be fit into the window of their connection: those that nobody reads must not keep the others
// waiting.
const (
	// MaxRequests is how many requests may be under way at a time.
	MaxRequests = 4000
	// frameSize is the longest frame in bytes: its head does not matter any more, and others get their turn.
	frameSize = 64 << 10
	// streamWindow is how much of one request or answer may be under way that nobody has taken, in bytes. Between server and agent no more than that comes in
	// one round trip.
	streamWindow = 256 << 10
	// connectionWindow is the same for all together; it is what the standard library takes for clients. A connection could have twice as much, but net/http gives
	// back twice what its server has of a request that was reset while it is still read, and ends the connection where that gets beyond 31 bits: after some 4,000 full
	// windows, and the session is made anew then.
	connectionWindow = 1 << 30
)

// HTTP2 is how HTTP/2 is spoken, within a session and with API servers.
func HTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: MaxRequests, MaxReadFrameSize: frameSize,
		MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
	}
}

// smallAnswer is how long an answer may be that is passed on in one piece, in bytes: what servers of net/http keep until a handler has returned.
const smallAnswer = 4 << 10

// LongestHold is how long such an answer is held for its end: the FlushInterval of a httputil.ReverseProxy.
const LongestHold = 20 * time.Millisecond

// PassOn makes httputil.ReverseProxy pass an answer on as it comes, whatever its FlushInterval is, which answers of unknown length do by themselves. Those that are known
// to be short stay what they are, and go out with their end as one piece, when that comes soon: each piece is a write, and wakes up all that is on its way.
func PassOn(response *http.Response) {
	if response.ContentLength > smallAnswer {
		response.ContentLength = -1 // the header says it still
	}
}

// EndWithContext makes an answer end with the context of its request. HTTP/2 of net/http misses that end while it waits to send more of the request than
// the other side takes, and so does who reads the answer.
//
// What was there is closed once: each time, HTTP/2 of net/http gives back to the connection what nobody has read, and panics when that gets beyond 31 bits.
func EndWithContext(ctx context.Context, response *http.Response) {
	body := response.Body
	end := sync.OnceFunc(func() { _ = body.Close() })
	response.Body = &endingBody{ReadCloser: body, ctx: ctx, stop: context.AfterFunc(ctx, end), end: end}
}

type endingBody struct {
	io.ReadCloser
	ctx  context.Context // it is the request's, of which this is the answer
	stop func() bool
	end  func()
}

// Read reads; what fails after the context has ended fails for its cause.
func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

// Close ends the answer, and does not wait until it has. HTTP/2 of net/http waits there until nobody reads the request any more, which may be read from a
// client that has seen a refusal and sends no more of it, but waits for the end of the answer: that is told once Close has returned.
func (b *endingBody) Close() error {
	b.stop()
	go b.end()
	return nil
}
