package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

const (
	// ownConnection is how many bytes of an unread answer this process holds if the answer has a connection of its own
	// through a stock agent. Such an agent pauses after 2 MiB, and what it has already read still arrives. Answers of
	// Drover's agent, and those over HTTP/2, have small windows.
	ownConnection = 4 << 20
	// handshakeTime limits the TLS handshake with an API server.
	handshakeTime = 10 * time.Second
)

// stockTransport sends requests to the API server of a stock agent, with the address and credential that the agent
// announced.
type stockTransport struct {
	params wire.Params
	plain  *http.Transport
	// upgrades speaks HTTP/1.1 for requests that switch protocols or have a long body.
	upgrades *http.Transport
}

func newStockTransport(s *session) *stockTransport {
	params := s.registration.Params
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(params.CA)
	transport := func(p *http.Protocols) *http.Transport {
		return &http.Transport{
			DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
				return s.dial(network, address) //nolint:contextcheck // it waits for nothing
			},
			TLSClientConfig:    &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
			DisableCompression: true, Protocols: p, HTTP2: wire.HTTP2(), MaxResponseHeaderBytes: wire.HeadOfConnection,
			TLSHandshakeTimeout: handshakeTime, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 16,
		}
	}
	both := protocols((*http.Protocols).SetHTTP1)
	both.SetHTTP2(true)
	upgrades := transport(protocols((*http.Protocols).SetHTTP1))
	upgrades.DisableKeepAlives = true
	upgrades.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := upgrades.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return secure(ctx, conn, address, upgrades.TLSClientConfig)
	}
	return &stockTransport{params: params, plain: transport(both), upgrades: upgrades}
}

func (t *stockTransport) roundTrip(request *http.Request, upgrade bool) (*http.Response, error) {
	out := rewrite(request, "https", t.params.Address)
	out.Header.Set("Authorization", "Bearer "+t.params.Token)
	// For a body over HTTP/2, net/http allocates a buffer whose size the cluster chooses, up to 512 KiB.
	if upgrade || hasLongBody(request) {
		return t.upgrades.RoundTrip(out)
	}
	return t.plain.RoundTrip(out)
}

func hasLongBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && (r.ContentLength <= 0 || r.ContentLength > longestWrite)
}

func (t *stockTransport) close() {
	t.plain.CloseIdleConnections()
	t.upgrades.CloseIdleConnections()
}

// secure begins TLS on a connection to an API server.
func secure(ctx context.Context, below net.Conn, address string, config *tls.Config) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		config = config.Clone()
		config.ServerName = host
		ctx, cancel := context.WithTimeout(ctx, handshakeTime)
		defer cancel()
		conn := &ownConn{tls.Client(below, config), below}
		if err = conn.HandshakeContext(ctx); err == nil {
			return conn, nil
		}
	}
	_ = below.Close()
	return nil, fmt.Errorf("connect to the API server: %w", err)
}

// ownConn is a connection for one request.
type ownConn struct {
	*tls.Conn
	below net.Conn
}

// Close closes the connection. TLS would first send an alert. While data is unread, the library makes that wait for its
// own pause of the agent, until a deadline of five seconds, and the data stays in memory.
func (c *ownConn) Close() error {
	if through, ok := c.below.(*stream); ok && through.isUnread() {
		_ = through.Close()
	}
	return c.Conn.Close()
}
