package chartrepo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	registry "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

const (
	dialTimeout   = 10 * time.Second
	headTimeout   = 30 * time.Second
	headLimit     = 64 << 10
	mostRedirects = 5
)

// errTooLarge ends a transfer beyond its limit.
var errTooLarge = errors.New("the repository sends too much")

// session is one download.
type session struct {
	client  *Client
	request Request
	base    *url.URL
	network *http.Transport
	// transport follows the rules, and http uses it.
	transport http.RoundTripper
	http      *http.Client
}

func (c *Client) open(r Request, base *url.URL) (*session, error) {
	authorities, err := x509.SystemCertPool()
	if err != nil {
		authorities = x509.NewCertPool()
	}
	if r.Credential.Authorities != "" && !authorities.AppendCertsFromPEM([]byte(r.Credential.Authorities)) {
		return nil, failure(Refused, "spec.helmSecretName: key cacerts of the Secret has no certificate in PEM")
	}
	s := &session{client: c, request: r, base: base}
	dialer := &guardedDialer{servers: c.servers}
	s.network = &http.Transport{
		Proxy: dialer.proxy, DialContext: dialer.dial, TLSClientConfig: &tls.Config{RootCAs: authorities,
			MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: headTimeout, MaxResponseHeaderBytes: headLimit,
		ForceAttemptHTTP2: true,
	}
	guarded := &guard{next: s.network, servers: c.servers}
	guarded.left.Store(transferLimit)
	s.transport = guarded
	s.http = &http.Client{Transport: guarded, CheckRedirect: checkRedirect}
	return s, nil
}

func (s *session) close() { s.network.CloseIdleConnections() }

// guardedDialer checks each address when it connects, because a name may have other addresses than before.
type guardedDialer struct {
	servers proxy.Servers
	// through is the address of the environment's proxy, which belongs to the administrator and may have any address.
	through atomic.Pointer[string]
}

func (d *guardedDialer) proxy(r *http.Request) (*url.URL, error) {
	through, err := http.ProxyFromEnvironment(r)
	if err == nil && through != nil {
		address := proxy.AddressOf(through)
		d.through.Store(&address)
	}
	return through, err
}

func (d *guardedDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	if through := d.through.Load(); through == nil || *through != address {
		dialer.ControlContext = func(_ context.Context, _, found string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(found)
			if err != nil {
				return err
			}
			return refusal(d.servers.Refuses(to.Addr()))
		}
	}
	return dialer.DialContext(ctx, network, address)
}

// refusal returns the error for a refused address, and nil for "".
func refusal(what string) error {
	if what == "" {
		return nil
	}
	return failure(Refused, "spec.repo: leads to %s; use a repository that does not", what)
}

// guard checks every request, those after a redirect and those to a registry's server of tokens included.
type guard struct {
	next    http.RoundTripper
	servers proxy.Servers
	// left is the number of bytes that may still arrive, in all answers together.
	left atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Hostname()
	if err := refusal(g.servers.RefusesHost(host)); err != nil {
		return nil, err
	}
	if r.URL.Scheme == "http" && r.Header.Get("Authorization") != "" && !isLoopback(host) {
		return nil, failure(Refused, "spec.helmSecretName: a credential is sent only over TLS: use a repository "+
			"with TLS, or remove the Secret's name")
	}
	answer, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = &counted{ReadCloser: answer.Body, left: &g.left}
	return answer, nil
}

// isLoopback reports whether a host never leaves this machine. The rules have permitted it before.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// counted is the body of an answer.
type counted struct {
	io.ReadCloser
	left *atomic.Int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.left.Add(-int64(n)) < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// checkRedirect limits redirects, and keeps TLS.
func checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > mostRedirects:
		return failure(Unavailable, "spec.repo: the repository redirects too often")
	case via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
		return failure(Refused, "spec.repo: the repository redirects to an address without TLS")
	}
	return nil
}

// explain turns an error of the network into a sentence without addresses of redirects, which may contain credentials.
func (s *session) explain(ctx context.Context, err error) *Error {
	at := s.request.Repository
	if errors.Is(err, errTooLarge) {
		return failure(Invalid, "spec.repo: repository %s sends more than %d MiB", at, transferLimit>>20)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return failure(Unavailable, "spec.repo: repository %s does not answer within %s", at, Timeout)
	}
	if answer, ok := errors.AsType[*registry.Error](err); ok {
		return s.badStatus(answer.StatusCode)
	}
	why := err
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		why = wrapped.Err
	}
	return failure(Unavailable, "spec.repo: repository %s does not answer: %s", at, outcome.Stable(why.Error()))
}

// badStatus explains the status of an answer.
func (s *session) badStatus(code int) *Error {
	at := s.request.Repository
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		if s.request.Credential.Username == "" {
			return failure(Unavailable, "spec.repo: repository %s requires a credential: name a Secret with username "+
				"and password in spec.helmSecretName", at)
		}
		return failure(Unavailable, "spec.helmSecretName: repository %s refuses the credential", at)
	case http.StatusNotFound:
		if s.base.Scheme == ociScheme {
			return s.missing()
		}
		return failure(Unavailable, "spec.repo: repository %s has no index.yaml, or not the chart in it (404)", at)
	}
	return failure(Unavailable, "spec.repo: repository %s answers %d %s", at, code, http.StatusText(code))
}

// missing says that the repository does not have the version.
func (s *session) missing() *Error {
	r := s.request
	if r.Version == "" {
		return failure(Missing, "spec.chart: repository %s has no release of chart %s", r.Repository, r.Chart)
	}
	return failure(Missing, "spec.version: repository %s has no version %s of chart %s", r.Repository,
		strings.TrimSpace(r.Version), r.Chart)
}
