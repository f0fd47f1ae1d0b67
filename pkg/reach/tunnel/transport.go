package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// impersonateUser names the user of a request. A request never uses the agent's own identity.
const impersonateUser = "Impersonate-User"

func protocols(set func(*http.Protocols, bool)) *http.Protocols {
	p := new(http.Protocols)
	set(p, true)
	return p
}

// Transport sends requests to a cluster's API server. Each request uses the best session at that time. It ignores
// scheme and host of the URL. Path, query and headers are the caller's, except Authorization, which the agent sets. A
// request without Impersonate-User is answered with 403.
//
// Without a session, this call and each request immediately fail with ErrNotConnected. If the session ends during a
// request, the request or the read of its answer fails with ErrSessionEnded.
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

// RoundTrip sends a request. It retries a read-only request once through another session if its session ends before
// there is an answer.
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
		if err == nil && wire.HeadSize(response.Header) > wire.MaxHead {
			go response.Body.Close() // may wait for the agent
			return nil, fmt.Errorf("cluster %s: the head of its answer is longer than %d bytes", t.cluster,
				wire.MaxHead)
		}
		if err == nil {
			response.Request = request
			response.Body = s.body(response)
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

// isUpgrade reports whether a request switches protocols: exec, attach, port-forward.
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

// forbidden answers a request without a user, as Kubernetes does.
func forbidden(request *http.Request) *http.Response {
	return refusal(request, http.StatusForbidden, "Forbidden", "the request has no user: set header Impersonate-User")
}

// refusal is an answer of Drover in the form of an API server's Status. reason and message are plain text.
func refusal(request *http.Request, code int, reason, message string) *http.Response {
	text := fmt.Sprintf(
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"code":%d,"message":%q}`+"\n",
		reason, code, message)
	return &http.Response{
		Status: fmt.Sprint(code, " ", http.StatusText(code)), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)),
		ContentLength: int64(len(text)),
	}
}

// body wraps the body of an answer. Its errors include the end of the session.
func (s *session) body(response *http.Response) io.ReadCloser {
	body := response.Body
	answer := answerBody{ReadCloser: body, session: s, end: sync.OnceValue(body.Close)}
	if s.registration.Heartbeat == 0 && response.ProtoMajor < 2 {
		answer.holds = ownConnection
	}
	if both, ok := body.(io.ReadWriteCloser); ok {
		return &upgradedBody{answer, both}
	}
	return &answer
}

type answerBody struct {
	io.ReadCloser
	session *session
	end     func() error
	holds   int64
}

// Holds is how many bytes of the answer this process may hold while nothing reads it, in addition to small windows.
func (b *answerBody) Holds() int64 { return b.holds }

// Close closes the answer once. Further calls do nothing (see wire.EndWithContext).
func (b *answerBody) Close() error { return b.end() }

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // what a reader returns at its end
		err = b.session.explain(err)
	}
	return n, err
}

// upgradedBody is the body of an answer that switches protocols.
type upgradedBody struct {
	answerBody
	io.Writer
}

// CloseWrite ends the sending direction, if the connection supports that.
func (b *upgradedBody) CloseWrite() error {
	if half, ok := b.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("close one direction: %w", errors.ErrUnsupported)
}

// transport returns the roundTripper for the kind of agent.
func (s *session) transport() roundTripper {
	if s.registration.Heartbeat > 0 {
		return newAgentTransport(s)
	}
	return newStockTransport(s)
}

// rewrite returns a copy of a request for another host.
func rewrite(request *http.Request, scheme, host string) *http.Request {
	out := request.WithContext(request.Context())
	target := *request.URL
	target.Scheme, target.Host, target.User = scheme, host, nil
	out.URL, out.Host = &target, host
	out.Header = request.Header.Clone()
	out.Header.Del("Authorization")
	for name := range out.Header {
		if strings.HasPrefix(name, wire.HeaderPrefix) {
			out.Header.Del(name) // These headers are reserved for Drover's server and agent.
		}
	}
	return out
}

// agentTransport sends requests to Drover's agent, over one HTTP/2 connection without TLS. The session's WebSocket
// already has TLS. The first request makes the connection, and the session ends with it.
type agentTransport struct {
	session *session
	client  *http.Transport

	once  sync.Once
	ready chan struct{} // closed when the connection was made or has failed
	conn  *http.ClientConn
	err   error
}

func newAgentTransport(s *session) *agentTransport {
	dial := func(context.Context, string, string) (net.Conn, error) {
		conn, err := s.dial(wire.AgentNetwork, wire.AgentAddress) //nolint:contextcheck // it waits for nothing
		if err != nil {
			return nil, err
		}
		return wire.LimitFrames(conn), nil
	}
	return &agentTransport{session: s, ready: make(chan struct{}), client: &http.Transport{
		DialContext: dial, DisableCompression: true, HTTP2: wire.HTTP2(), MaxResponseHeaderBytes: wire.HeadOfConnection,
		Protocols: protocols((*http.Protocols).SetUnencryptedHTTP2),
	}}
}

func (t *agentTransport) roundTrip(request *http.Request, upgrade bool) (*http.Response, error) {
	conn, err := t.shared(request.Context())
	if err == nil && conn.InFlight() >= wire.MaxRequests {
		t.session.server.metrics.Refused()
		err = ErrTooManyStreams
	}
	if err != nil {
		closeBody(request)
		return nil, err
	}
	if upgrade {
		return t.upgrade(conn, request)
	}
	response, err := conn.RoundTrip(rewrite(request, "http", wire.AgentHost))
	if err == nil && request.Body != nil {
		wire.EndWithContext(request.Context(), response)
	}
	return response, err
}

// shared returns the connection of all requests.
func (t *agentTransport) shared(ctx context.Context) (*http.ClientConn, error) {
	t.once.Do(func() { //nolint:contextcheck // it serves others after the request
		go func() {
			defer close(t.ready)
			t.conn, t.err = t.client.NewClientConn(context.Background(), "http", wire.AgentAddress)
			if t.err != nil {
				t.session.end(fmt.Errorf("%w: %w", errConnection, t.err))
			}
		}()
	})
	select {
	case <-t.ready:
		return t.conn, t.err
	case <-t.session.over:
		return nil, ErrSessionEnded
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (t *agentTransport) close() {
	t.once.Do(func() {
		t.err = ErrSessionEnded
		close(t.ready)
	})
	<-t.ready
	if t.conn != nil {
		_ = t.conn.Close()
	}
}
