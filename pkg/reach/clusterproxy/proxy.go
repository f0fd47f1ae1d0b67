package clusterproxy

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// Proxy handles requests to downstream clusters. It is safe for concurrent use.
type Proxy struct {
	options       Options
	authenticator *authenticator
	authorizer    *authorizer
	checks        *fairQueue
	queue         *fairQueue
	longLimiter   *limiter
	forwarder     *httputil.ReverseProxy
	metrics       *metrics.ProxyRequests
	// authorities caches results of EndpointAuthority.
	authorities *memo[saidAuthority]
}

// New returns the proxy and registers its metrics. The error names the invalid option.
func New(o Options) (*Proxy, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if o.Audit == nil {
		o.Audit = logRecords(o.Log)
	}
	measured, err := metrics.NewProxyRequests(o.Registerer)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		options: o, authorizer: newAuthorizer(o), metrics: measured, authorities: newAuthorities(),
		checks: newChecks(),
		longLimiter: newLimiter(shares{atMost(o.MaxLongRunningPerNamespace), atMost(o.MaxLongRunning),
			atMost(o.MaxLongRunningPerCaller)}),
		authenticator: &authenticator{tokens: o.Tokens, tokenNamespace: o.TokenNamespace, lookup: o.Lookup,
			clientCA: o.ClientCA, host: o.Authenticator, prefixes: o.Prefixes},
	}
	p.queue = p.newQueue()
	if o.TokenReviews != nil {
		p.authenticator.reviews = newTokenReviews(o.TokenReviews, o.Audiences, o.answersFor())
	}
	p.forwarder = &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: byExchange{}, FlushInterval: wire.LongestHold,
		BufferPool: wire.NewBuffers(bufferSize), ModifyResponse: modify, ErrorHandler: failed,
		ErrorLog: log.New(debugLog{o.Log}, "", 0),
	}
	return p, nil
}

// debugLog receives net/http's messages about broken connections, which are frequent.
type debugLog struct{ log logrus.FieldLogger }

func (d debugLog) Write(line []byte) (int, error) {
	d.log.Debug(string(line))
	return len(line), nil
}

// ServeHTTP handles a request. It panics with http.ErrAbortHandler to abort an incomplete answer, as net/http requires.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := p.newExchange(w, r)
	defer e.end()
	serve, path := p.serve, escapedPath(r.URL)
	switch {
	case strings.HasPrefix(path, EndpointTokensPrefix):
		serve = p.issue
	case strings.HasPrefix(path, EndpointsPrefix):
		serve = p.servers
	}
	if err := serve(e); err != nil {
		e.refuse(p.refusalOf(err))
	}
}

// serve runs the steps of a request. The error is a refusal, or an internal problem.
func (p *Proxy) serve(e *exchange) error {
	if e.r.Method == http.MethodConnect || e.r.Method == http.MethodTrace {
		return &refusal{code: http.StatusMethodNotAllowed, reason: metav1.StatusReasonMethodNotAllowed,
			message: "this method is not allowed"}
	}
	if forServiceWorker(e.r.Header) {
		return forbidden("a page must not load a service worker from a cluster")
	}
	at, ok := splitPath(escapedPath(e.r.URL), p.options.Prefixes)
	if !ok {
		return &refusal{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound,
			message: "the path contains no cluster"}
	}
	e.at = at
	if no := e.classify(); no != nil {
		return no
	}
	defer p.metrics.Begin(e.long)()
	err := p.checked(e, func() error { return p.authorize(e) })
	if err != nil {
		return err
	}
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	if e.transport, err = p.options.Transport(at.Cluster); err != nil {
		if errors.Is(err, p.options.NotConnected) {
			return notConnected(at.Cluster)
		}
		return fmt.Errorf("find a connection to cluster %s: %w", at.Cluster, err)
	}
	p.forward(e)
	return nil
}

// checked authenticates the caller and then runs check, which may ask the management cluster about the caller.
func (p *Proxy) checked(e *exchange, check func() error) (err error) {
	if e.caller, err = p.authenticator.authenticate(e.r); err != nil {
		return err
	}
	leave, err := e.enterChecks()
	if err != nil {
		return err
	}
	defer leave()
	return check()
}

// authorize decides the downstream identity of a request and checks the permissions.
func (p *Proxy) authorize(e *exchange) (err error) {
	e.what, err = p.allowed(e.r.Context(), e.caller, e)
	return err
}

// allowed decides the downstream identity of a caller's request. The error is a refusal, or why the permissions are
// unknown.
func (p *Proxy) allowed(ctx context.Context, caller Caller, e *exchange) (decision, error) {
	decided, no := decide(caller, e.r.Header, p.options.PassSystemGroups)
	if no != nil {
		return decision{}, no
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.RequestTimeout)
	defer cancel()
	if err := p.authorizer.access(ctx, caller, e.at.Cluster); err != nil {
		return decided, err
	}
	return decided, p.authorizer.impersonate(ctx, caller, decided)
}

// refusalOf converts an error to an answer for the client. It logs internal problems.
func (p *Proxy) refusalOf(err error) *refusal {
	var no *refusal
	switch {
	case errors.As(err, &no):
		return no
	case errors.Is(err, errUnauthenticated):
		return unauthorized()
	case errors.Is(err, context.Canceled):
		return clientGone()
	}
	p.options.Log.WithError(err).Warn("Cannot answer a request to a cluster")
	return unavailable("this server cannot check at the moment whether the request is allowed, or how to reach the "+
		"cluster", 1)
}

// end reports to audit and metrics, and answers after a panic.
func (e *exchange) end() {
	failure := recover()
	if err, _ := failure.(error); failure != nil && !errors.Is(err, http.ErrAbortHandler) {
		e.proxy.options.Log.WithField("stack", string(debug.Stack())).Errorf("A request to a cluster failed: %v",
			failure)
		if e.w.status == 0 {
			e.refuse(&refusal{code: http.StatusInternalServerError, reason: metav1.StatusReasonInternalError,
				message: "this server failed"})
			failure = nil
		}
	}
	e.cut = failure != nil
	e.proxy.options.Audit(e.record(StageEnded))
	e.proxy.metrics.Observe(e.verb, e.w.status, e.long, time.Since(e.start))
	if failure != nil {
		panic(http.ErrAbortHandler)
	}
}
