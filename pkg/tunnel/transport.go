package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/drover-io/drover/pkg/tunnel/wire"
)

// impersonateUser names who a request is made for. Nobody acts as the agent itself.
const impersonateUser = "Impersonate-User"

// HTTP/2 through a session: frames long enough that their heads do not matter, and windows of a stream and of all together, in bytes. A
// response that nobody reads holds a window's worth, and others go on beside it.
const (
	frameSize    = 256 << 10
	streamWindow = 2 << 20
	totalWindow  = 256 << 20
)

func http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{MaxReadFrameSize: frameSize, MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: totalWindow}
}

func protocols(set func(*http.Protocols, bool)) *http.Protocols {
	p := new(http.Protocols)
	set(p, true)
	return p
}

// Transport sends requests to a cluster's API server through the session that is best at the time of each. Of a request's URL scheme and host
// mean nothing; path, query and headers are the caller's, except for Authorization, which is the agent's matter. A request has to name its user
// in Impersonate-User and is answered with 403 otherwise.
//
// Without a session the error is ErrNotConnected, at once, here and for each request. What waits for an answer when its session ends
// gets ErrSessionEnded, and so does who reads one.
func (s *Server) Transport(cluster string) (http.RoundTripper, error) {
	if !s.Connected(cluster) {
		return nil, fmt.Errorf("cluster %s: %w", cluster, ErrNotConnected)
	}
	return &clusterTransport{s, cluster}, nil
}

type clusterTransport struct {
	server  *Server
	cluster string
}

// RoundTrip sends a request. One that changes nothing is sent once more when its session ends before there is an answer, and there is another.
func (t *clusterTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Header.Get(impersonateUser) == "" {
		closeBody(request)
		return forbidden(request), nil
	}
	upgrade := isUpgrade(request.Header)
	for again := repeatable(request) && !upgrade; ; again = false {
		s := t.server.table.best(t.cluster)
		if s == nil {
			closeBody(request)
			return nil, fmt.Errorf("cluster %s: %w", t.cluster, ErrNotConnected)
		}
		response, err := s.http.roundTrip(request, upgrade)
		if err == nil {
			response.Request = request
			response.Body = s.body(response.Body)
			return response, nil
		}
		if err = s.explain(err); !again || !errors.Is(err, ErrSessionEnded) || request.Context().Err() != nil {
			return nil, fmt.Errorf("cluster %s: %w", t.cluster, err)
		}
	}
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}

func repeatable(request *http.Request) bool {
	safe := request.Method == "" || request.Method == http.MethodGet || request.Method == http.MethodHead
	return safe && (request.Body == nil || request.Body == http.NoBody)
}

// isUpgrade tells whether a request changes to another protocol: exec, attach, port-forward.
func isUpgrade(header http.Header) bool {
	if header.Get("Upgrade") == "" {
		return false
	}
	for _, value := range header.Values("Connection") {
		for token := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return true
			}
		}
	}
	return false
}

// forbidden answers a request that names no user, as Kubernetes would.
func forbidden(request *http.Request) *http.Response {
	const text = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Forbidden","code":403,` +
		`"message":"the request names no user: header Impersonate-User has to be set"}` + "\n"
	return &http.Response{
		Status: "403 Forbidden", StatusCode: http.StatusForbidden, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)),
	}
}

// body is an answer's, whose errors tell that the session has ended.
func (s *session) body(body io.ReadCloser) io.ReadCloser {
	if both, ok := body.(io.ReadWriteCloser); ok {
		return &upgradedBody{answerBody{body, s}, both}
	}
	return &answerBody{body, s}
}

type answerBody struct {
	io.ReadCloser
	session *session
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // what a reader returns at its end
		err = b.session.explain(err)
	}
	return n, err
}

type upgradedBody struct {
	answerBody
	io.Writer
}

// transport makes what sends requests through the session, by its kind.
func (s *session) transport() roundTripper {
	if s.registration.Heartbeat > 0 {
		return newAgentTransport(s)
	}
	return newStockTransport(s)
}

// rewrite makes a request one to another host. The caller's is left as it is.
func rewrite(request *http.Request, scheme, host string) *http.Request {
	out := request.WithContext(request.Context())
	target := *request.URL
	target.Scheme, target.Host, target.User = scheme, host, nil
	out.URL, out.Host = &target, host
	out.Header = request.Header.Clone()
	out.Header.Del("Authorization")
	return out
}

// agentTransport sends requests to our own agent: one connection for all, as HTTP/2 without TLS, which the session's WebSocket has; and one
// of its own for each that changes to another protocol.
type agentTransport struct {
	session  *session
	plain    *http.Transport
	upgrades *http.Transport

	mu   sync.Mutex
	conn *sharedConn
}

// sharedConn is the connection that requests share, or will be once ready is closed.
type sharedConn struct {
	ready chan struct{}
	conn  *http.ClientConn
	err   error
}

func newAgentTransport(s *session) *agentTransport {
	dial := func(context.Context, string, string) (net.Conn, error) {
		return s.dial(wire.AgentNetwork, wire.AgentAddress) //nolint:contextcheck // it waits for nothing
	}
	return &agentTransport{
		session: s,
		plain: &http.Transport{
			DialContext: dial, DisableCompression: true, HTTP2: http2Config(), Protocols: protocols((*http.Protocols).SetUnencryptedHTTP2),
		},
		upgrades: &http.Transport{
			DialContext: dial, DisableCompression: true, DisableKeepAlives: true, Protocols: protocols((*http.Protocols).SetHTTP1),
		},
	}
}

func (t *agentTransport) roundTrip(request *http.Request, upgrade bool) (*http.Response, error) {
	out := rewrite(request, "http", wire.AgentHost)
	if upgrade {
		return t.upgrades.RoundTrip(out)
	}
	conn, err := t.shared(request.Context())
	if err != nil {
		closeBody(request)
		return nil, err
	}
	return conn.RoundTrip(out)
}

// shared is the connection for all requests. It is made by the first one, and anew when it has ended and the session has not.
func (t *agentTransport) shared(ctx context.Context) (*http.ClientConn, error) {
	t.mu.Lock()
	shared := t.conn
	if shared == nil || shared.useless() {
		shared = &sharedConn{ready: make(chan struct{})}
		t.conn = shared
		go func() { //nolint:contextcheck // it serves others after the request
			defer close(shared.ready)
			shared.conn, shared.err = t.plain.NewClientConn(context.Background(), "http", wire.AgentAddress)
		}()
	}
	t.mu.Unlock()
	select {
	case <-shared.ready:
		return shared.conn, shared.err
	case <-t.session.over:
		return nil, ErrSessionEnded
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// useless tells whether a connection was made and cannot be used.
func (c *sharedConn) useless() bool {
	select {
	case <-c.ready:
		return c.err != nil || c.conn.Err() != nil
	default:
		return false
	}
}

func (t *agentTransport) close() {
	t.mu.Lock()
	shared := t.conn
	t.mu.Unlock()
	if shared != nil {
		<-shared.ready
		if shared.err == nil {
			_ = shared.conn.Close()
		}
	}
	t.upgrades.CloseIdleConnections()
}

// stockTransport sends requests to the API server that a stock agent announced, with the credential that it announced.
type stockTransport struct {
	params   wire.Params
	plain    *http.Transport
	upgrades *http.Transport
}

func newStockTransport(s *session) *stockTransport {
	params := s.registration.Params
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(params.CA)
	transport := func(p *http.Protocols) *http.Transport {
		return &http.Transport{
			DialContext:        func(_ context.Context, network, address string) (net.Conn, error) { return s.dial(network, address) }, //nolint:contextcheck // it waits for nothing
			TLSClientConfig:    &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
			DisableCompression: true, Protocols: p, HTTP2: http2Config(),
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 16,
		}
	}
	both := protocols((*http.Protocols).SetHTTP1)
	both.SetHTTP2(true)
	upgrades := transport(protocols((*http.Protocols).SetHTTP1))
	upgrades.DisableKeepAlives = true
	return &stockTransport{params: params, plain: transport(both), upgrades: upgrades}
}

func (t *stockTransport) roundTrip(request *http.Request, upgrade bool) (*http.Response, error) {
	out := rewrite(request, "https", t.params.Address)
	out.Header.Set("Authorization", "Bearer "+t.params.Token)
	if upgrade {
		return t.upgrades.RoundTrip(out)
	}
	return t.plain.RoundTrip(out)
}

func (t *stockTransport) close() {
	t.plain.CloseIdleConnections()
	t.upgrades.CloseIdleConnections()
}
