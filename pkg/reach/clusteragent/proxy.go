package clusteragent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

const (
	impersonate     = "Impersonate-"
	impersonateUser = impersonate + "User"
)

// buffers are shared by all requests.
var buffers = wire.NewBuffers(64 << 10)

// foreign are headers that claim an identity for other systems. They must not reach the API server.
var foreign = []string{"Authorization", "Cookie", "Forwarded", "Proxy-", "X-Forwarded-", "X-Remote-", "X-Drover-",
	"X-Api-Tunnel-"}

// proxy handles the server's requests by forwarding them to the cluster's API server.
type proxy struct {
	target     *url.URL
	credential *credential
	plain      *http.Transport
	upgrades   *http.Transport
	log        logrus.FieldLogger
	answering  inFlight
}

func newProxy(o Options) (*proxy, error) {
	target, err := url.Parse(o.APIServer)
	if err != nil {
		return nil, fmt.Errorf("APIServer: %w", err)
	}
	authorities, err := os.ReadFile(o.APIServerCAFile)
	if err != nil {
		return nil, fmt.Errorf("APIServerCAFile: %w", err)
	}
	roots, err := pool(authorities)
	if err != nil {
		return nil, fmt.Errorf("APIServerCAFile: %s: %w", o.APIServerCAFile, err)
	}
	transport := func(set ...func(*http.Protocols, bool)) *http.Transport {
		p := new(http.Protocols)
		for _, each := range set {
			each(p, true)
		}
		http2 := wire.HTTP2()
		http2.SendPingTimeout, http2.PingTimeout = 10*time.Second, 5*time.Second
		return &http.Transport{
			DialContext:     (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			Protocols:       p, DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout: 90 * time.Second,
			HTTP2:           http2,
		}
	}
	return &proxy{
		target: target, credential: &credential{path: o.APIServerTokenFile}, log: o.Log,
		plain:    transport((*http.Protocols).SetHTTP1, (*http.Protocols).SetHTTP2),
		upgrades: transport((*http.Protocols).SetHTTP1),
	}, nil
}

// RoundTrip forwards a request. A request that switches protocols gets its own connection.
func (p *proxy) RoundTrip(request *http.Request) (*http.Response, error) {
	transport, upgrade := p.plain, request.Header.Get("Upgrade") != ""
	if upgrade {
		transport = p.upgrades
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if request.Body != nil && !upgrade {
		wire.EndWithContext(request.Context(), response)
	}
	wire.PassOn(response)
	return response, nil
}

// close waits until all requests are finished, and closes the connections to the API server. Close the requests'
// connections first.
func (p *proxy) close() {
	p.answering.wait()
	p.plain.CloseIdleConnections()
	p.upgrades.CloseIdleConnections()
}

// handler handles requests.
func (p *proxy) handler() http.Handler {
	reverse := &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: p, FlushInterval: wire.LongestHold, BufferPool: buffers, ErrorHandler: p.failed,
		ErrorLog: stdlog.New(debugLog{p.log}, "", 0),
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p.answering.add(1)
		defer p.answering.add(-1)
		if r.Header.Get(impersonateUser) == "" {
			answer(rw, http.StatusForbidden, "Forbidden", "the request has no user: set header Impersonate-User")
			return
		}
		token, err := p.credential.get()
		if err != nil {
			p.log.WithError(err).Error("Cannot answer requests")
			answer(rw, http.StatusServiceUnavailable, "ServiceUnavailable",
				"the cluster agent cannot read its credential")
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), tokenKey{}, token))
		if protocol := r.Header.Get(wire.HeaderUpgrade); protocol != "" && r.ProtoMajor == 2 {
			p.upgrade(rw, r, protocol)
			return
		}
		reverse.ServeHTTP(final{rw}, r)
	})
}

// final forwards only final answers. The server would drop interim answers anyway. An interim answer to a request that
// is being reset makes net/http read headers while httputil writes them.
type final struct{ http.ResponseWriter }

// Unwrap lets http.ResponseController flush and hijack.
func (f final) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// WriteHeader drops interim answers.
func (f final) WriteHeader(code int) {
	if code >= http.StatusOK {
		f.ResponseWriter.WriteHeader(code)
	}
}

type tokenKey struct{}

// rewrite changes the request to one with the agent's credential.
func (p *proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = p.target.Scheme, p.target.Host, p.target.Host
	r.Out.URL.RawQuery = r.In.URL.RawQuery // unchanged: the API server handles what cannot be parsed
	// Keep impersonation headers even if Connection lists them as hop-by-hop. Without them the request would use the
	// agent's own identity.
	for name, values := range r.In.Header {
		if strings.HasPrefix(name, impersonate) {
			r.Out.Header[name] = slices.Clone(values)
		}
	}
	for name := range r.Out.Header {
		for _, unwanted := range foreign {
			if name == unwanted || strings.HasSuffix(unwanted, "-") && strings.HasPrefix(name, unwanted) {
				delete(r.Out.Header, name)
			}
		}
	}
	token, _ := r.In.Context().Value(tokenKey{}).(string)
	r.Out.Header.Set("Authorization", "Bearer "+token)
}

// failed answers when the API server did not.
func (p *proxy) failed(rw http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) {
		p.log.WithField("path", r.URL.Path).Debug("The client canceled a request")
	} else {
		p.log.WithError(err).WithField("path", r.URL.Path).Warn("The API server does not answer")
	}
	answer(rw, http.StatusBadGateway, "ServiceUnavailable", "the cluster agent cannot reach the cluster's API server")
}

// answer sends an answer of the agent in the form of an API server's Status.
func answer(rw http.ResponseWriter, code int, reason, message string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	_ = json.NewEncoder(rw).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": struct{}{}, "status": "Failure", "reason": reason,
		"code": code, "message": message,
	})
}

// server handles the connections that are dialed through sessions.
func (p *proxy) server() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: p.handler(), Protocols: protocols, ReadHeaderTimeout: 30 * time.Second,
		ErrorLog: stdlog.New(debugLog{p.log}, "", 0),
		HTTP2:    wire.HTTP2(),
	}
}

// debugLog receives log lines of the standard library.
type debugLog struct{ log logrus.FieldLogger }

func (d debugLog) Write(line []byte) (int, error) {
	d.log.Debug(strings.TrimSpace(string(line)))
	return len(line), nil
}

// inFlight counts requests. Unlike with a sync.WaitGroup, a request may begin at zero while wait runs.
type inFlight struct {
	mu    sync.Mutex
	n     int
	ended chan struct{} // closed at zero; nil without waiters
}

func (u *inFlight) add(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n += n
	if u.n == 0 && u.ended != nil {
		close(u.ended)
		u.ended = nil
	}
}

func (u *inFlight) wait() {
	u.mu.Lock()
	if u.n == 0 {
		u.mu.Unlock()
		return
	}
	if u.ended == nil {
		u.ended = make(chan struct{})
	}
	ended := u.ended
	u.mu.Unlock()
	<-ended
}

// switchboard is that server's listener. It accepts what sessions dial.
type switchboard struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newSwitchboard() *switchboard {
	return &switchboard{conns: make(chan net.Conn), done: make(chan struct{})}
}

// dial opens a connection to that server.
func (b *switchboard) dial() (*wire.Dialed, error) {
	dialed, accepted := wire.Pipe()
	select {
	case b.conns <- accepted:
		return dialed, nil
	case <-b.done:
		return nil, net.ErrClosed
	}
}

// Accept returns the next connection.
func (b *switchboard) Accept() (net.Conn, error) {
	select {
	case conn := <-b.conns:
		return conn, nil
	case <-b.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener.
func (b *switchboard) Close() error {
	b.once.Do(func() { close(b.done) })
	return nil
}

// Addr is a placeholder.
func (b *switchboard) Addr() net.Addr { return &net.UnixAddr{Name: wire.AgentHost, Net: "unix"} }

// sessionDialer dials for one session.
type sessionDialer struct {
	switchboard *switchboard
	room        func() // waits until the session can take more data

	mu      sync.Mutex
	dialed  []*wire.Dialed
	stopped bool
}

// dial is the session's Dialer. Only one address is allowed. A refusal is reported to the server, and the session
// continues. The context is already canceled and therefore ignored.
func (d *sessionDialer) dial(_ context.Context, network, address string) (net.Conn, error) {
	if network != wire.AgentNetwork || address != wire.AgentAddress {
		return refused{reason: errors.New("address may not be dialed")}, nil
	}
	conn, err := d.switchboard.dial()
	if err != nil {
		return nil, err
	}
	conn.Room = d.room
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	d.dialed = append(slices.DeleteFunc(d.dialed, (*wire.Dialed).Closed), conn)
	return conn, nil
}

// refused is the connection to a refused address. It ends at once with the reason. If the Dialer returned an error
// instead, the server would learn about it before the session's connection has ended. Its answer would end the
// connection a second time, in another goroutine.
type refused struct {
	net.Conn
	reason error
}

func (r refused) Read([]byte) (int, error)  { return 0, r.reason }
func (r refused) Write([]byte) (int, error) { return 0, r.reason }
func (r refused) Close() error              { return nil }

// stop closes all connections and prevents new ones. It returns when nothing writes to the session any more.
func (d *sessionDialer) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	for _, conn := range d.dialed {
		conn.Stop()
	}
}
