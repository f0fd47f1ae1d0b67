package connect

import (
	"fmt"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/reach/unread"
)

// answerWindow is how many bytes of an answer the API server may send before an agent reads them. The default of
// clients is 4 MiB. A node that does not read its watch, and writes into its plan Secret, would fill that.
const answerWindow = 256 << 10

var (
	// unreadWatch is what an agent's request holds while the agent reads nothing: the window, and buffers for copying.
	unreadWatch = unread.Kind{Holds: answerWindow + 64<<10}
	// unreadFile is a download. It holds one buffer, and budgets of tenants do not concern it.
	unreadFile = unread.Kind{}
)

// downloads is the tenant of downloads. It is no valid namespace.
const downloads = "/assets/"

// narrowTransport returns a transport to the API server whose answers have answerWindow. The connection is its own,
// because client-go shares connections, and Drover's own answers may be large.
func narrowTransport(config *rest.Config) (http.RoundTripper, error) {
	config = rest.CopyConfig(config)
	own := config.Dial == nil && config.Transport == nil
	if own {
		config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("make transport to the API server: %w", err)
	}
	for below := transport; own && below != nil; {
		switch known := below.(type) {
		case *http.Transport:
			known.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: answerWindow}
			return transport, nil
		case utilnet.RoundTripperWrapper:
			below = known.WrappedRoundTripper()
		default:
			return transport, nil
		}
	}
	return transport, nil
}
