package wire

import (
	"context"
	"io"
	"math"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// The windows of all streams fit into that of their connection, so that unread answers block no others. The rest of 31
// bits leaves room for the windows that net/http returns twice before it panics.
func TestHTTP2_StreamsFitIntoTheConnectionWindow(t *testing.T) {
	const most = math.MaxInt32 // RFC 9113 §6.9.1
	c := HTTP2()
	if all := c.MaxConcurrentStreams * c.MaxReceiveBufferPerStream; all > c.MaxReceiveBufferPerConnection {
		t.Errorf("%d streams hold %d bytes, and their connection %d", c.MaxConcurrentStreams, all,
			c.MaxReceiveBufferPerConnection)
	}
	if room := (most - c.MaxReceiveBufferPerConnection) / c.MaxReceiveBufferPerStream; room < 4000 {
		t.Errorf("there is room for two window updates of %d streams, want 4000", room)
	}
}

// closings counts how often an answer is closed.
type closings struct {
	io.Reader
	n atomic.Int32
}

func (c *closings) Close() error {
	c.n.Add(1)
	return nil
}

func TestEndWithContext_ClosesTheAnswerOnce(t *testing.T) {
	for name, ends := range map[string]func(cancel func(), answer io.Closer){
		"closed by its reader":   func(_ func(), answer io.Closer) { _ = answer.Close() },
		"ended with its context": func(cancel func(), _ io.Closer) { cancel() },
		"ended with its context, and closed": func(cancel func(), answer io.Closer) {
			cancel()
			synctest.Wait()
			_ = answer.Close()
		},
		"closed, and then ended with its context": func(cancel func(), answer io.Closer) {
			_ = answer.Close()
			cancel()
		},
		"closed twice": func(_ func(), answer io.Closer) { _ = answer.Close(); _ = answer.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				closed := &closings{}
				response := &http.Response{Body: closed}
				EndWithContext(ctx, response)
				ends(cancel, response.Body)
				synctest.Wait()
				if n := closed.n.Load(); n != 1 {
					t.Errorf("it is closed %d times, want once", n)
				}
			})
		})
	}
}
