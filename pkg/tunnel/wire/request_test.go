package wire

import (
	"math"
	"testing"
)

// Answers that nobody reads take the window of the connection away from all others, unless all of them fit into it.
func TestHTTP2_AllStreamsFitIntoTheirConnection(t *testing.T) {
	// What a connection has before anybody sets something, in bytes. (RFC 9113 §6.9.2.)
	const initial = 65_535
	c := HTTP2()
	if all := c.MaxConcurrentStreams * c.MaxReceiveBufferPerStream; all > c.MaxReceiveBufferPerConnection {
		t.Errorf("%d streams hold %d bytes, and their connection %d", c.MaxConcurrentStreams, all, c.MaxReceiveBufferPerConnection)
	}
	// net/http adds one to the other in 31 bits. (RFC 9113 §6.9.1.)
	if c.MaxReceiveBufferPerConnection > math.MaxInt32-initial {
		t.Errorf("no window is as large as %d bytes", c.MaxReceiveBufferPerConnection)
	}
}
