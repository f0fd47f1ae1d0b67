package clusterproxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// Why a request ended, besides what the transport says.
var (
	errDeadline        = errors.New("the request took too long")
	errAgentRefused    = errors.New("the cluster refused the credential of its agent")
	errLedAway         = errors.New("the cluster redirects to somewhere else")
	errNoStatus        = errors.New("the status of the cluster's answer is none of HTTP")
	errUnaskedProtocol = errors.New("the cluster changed the protocol without being asked")
)

// forward passes a request on and streams the answer.
func (p *Proxy) forward(e *exchange) {
	ctx := context.WithValue(e.r.Context(), exchangeKey{}, e)
	e.forwarded = true
	if e.long {
		p.options.Audit(e.record(StageStarted))
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.options.RequestTimeout, errDeadline)
		defer cancel()
	}
	e.setDeadlines()

	out := e.r.Clone(ctx)
	out.URL, _ = e.at.url(e.r.URL) // it could be decoded before
	out.Host, out.RequestURI, out.Trailer, out.TransferEncoding = e.at.Cluster, "", nil, nil
	out.Header = outboundHeaders(e.r.Header, e.what.As, e.upgrade, e.id)
	if out.Body != nil && out.Body != http.NoBody {
		out.Body = &countingBody{ReadCloser: e.r.Body, recorder: e.w}
	}
	p.forwarder.ServeHTTP(e.w, out)
}

// setDeadlines replaces the listener's deadlines, which are for requests that it answers itself. A client that takes nothing, or sends nothing, is not waited for
// here either, or it would keep a place for ever; where it watches, that is its right. Not every connection has deadlines.
func (e *exchange) setDeadlines() {
	var until time.Time
	if life := e.proxy.options.RequestTimeout; !e.long {
		until = time.Now().Add(life + min(life, lastWords))
	}
	control := http.NewResponseController(e.w)
	_ = control.SetWriteDeadline(until)
	// Without a body nothing is waited for: net/http takes the listener's own deadline away then in HTTP/1, and in HTTP/2 it ends nothing but bodies.
	if e.r.ContentLength != 0 {
		_ = control.SetReadDeadline(until)
	}
}

// lastWords is how long a client may take for what it is told when its request has timed out.
const lastWords = 5 * time.Second

// rewrite puts back what httputil takes away of a request that is made already: of its headers, those it thinks are the client's, and of its query, what
// it cannot read.
func rewrite(r *httputil.ProxyRequest) {
	maps.Copy(r.Out.Header, r.In.Header)
	r.Out.URL.RawQuery = r.In.URL.RawQuery
}

// byExchange sends a request through the transport of its exchange.
type byExchange struct{}

// RoundTrip implements http.RoundTripper.
func (byExchange) RoundTrip(r *http.Request) (*http.Response, error) {
	e := exchangeOf(r.Context())
	answer, err := e.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if sent := answer.Request; sent != nil && sent.URL != nil {
		e.hosts = append(e.hosts, sent.Host, sent.URL.Host)
	}
	answer.Request = r // whatever the transport made of it
	if r.Body != nil && answer.StatusCode != http.StatusSwitchingProtocols {
		answer.Body = notWaitedFor{answer.Body}
	}
	return answer, nil
}

// notWaitedFor is an answer whose Close does not wait until it has ended. HTTP/2 of net/http waits there until nobody reads the request any more, which may be
// read from a client that has seen a refusal and sends no more of it, but waits for the end of the answer: that is told once Close has returned.
type notWaitedFor struct{ io.ReadCloser }

// Close implements io.Closer.
func (a notWaitedFor) Close() error {
	go func() { _ = a.ReadCloser.Close() }()
	return nil
}

// modify looks at an answer before it is passed on.
func modify(answer *http.Response) error {
	e := exchangeOf(answer.Request.Context())
	// net/http takes any number of an agent, and the recorder would keep it here and call what follows a success.
	if answer.StatusCode < http.StatusOK && answer.StatusCode != http.StatusSwitchingProtocols {
		return errNoStatus
	}
	// httputil finds that out, too, and leaves the connection open then.
	if answer.StatusCode == http.StatusSwitchingProtocols && (e.upgrade == "" || !strings.EqualFold(answer.Header.Get("Upgrade"), e.upgrade)) {
		return errUnaskedProtocol
	}
	// The caller has proved here who it is. It is the agent's credential that the API server does not accept, and asking the caller for another one
	// would make clients forget the one they have. What is behind the API server's proxy may want to know more.
	if answer.StatusCode == http.StatusUnauthorized && e.kind.Subresource != "proxy" {
		return errAgentRefused
	}
	away := cleanAnswer(answer.Header, e.at, append(e.hosts, e.at.Cluster, e.r.Host))
	if away && answer.StatusCode >= http.StatusMultipleChoices && answer.StatusCode < http.StatusBadRequest {
		return errLedAway
	}
	if len(answer.Header[auditIDHeader]) == 0 {
		answer.Header.Set(auditIDHeader, e.id)
	}
	wire.PassOn(answer)
	return nil
}

// failed answers when there is no answer of the cluster.
func failed(_ http.ResponseWriter, r *http.Request, err error) {
	e := exchangeOf(r.Context())
	e.refuse(e.proxy.lost(e, context.Cause(r.Context()), err))
}

// lost tells a client why it gets no answer. cause is why the request's context ended, nil if it did not.
func (p *Proxy) lost(e *exchange, cause, err error) *refusal {
	log := p.options.Log.WithError(err).WithField("clusterID", e.at.Cluster)
	switch {
	case errors.Is(cause, errDeadline):
		return &refusal{
			code: http.StatusGatewayTimeout, reason: metav1.StatusReasonTimeout,
			message: "cluster " + quote(e.at.Cluster) + " did not answer within " + p.options.RequestTimeout.String(),
		}
	case cause != nil:
		return clientGone()
	case errors.Is(err, errAgentRefused):
		log.Warn("A cluster refuses the credential of its agent")
		return unavailable("cluster "+quote(e.at.Cluster)+" does not accept the credential of its own agent", 0)
	case errors.Is(err, errLedAway):
		log.Warn("A cluster redirects to another host, which is not passed on")
		return &refusal{
			code: http.StatusBadGateway, reason: metav1.StatusReasonInternalError,
			message: "cluster " + quote(e.at.Cluster) + " redirects to somewhere else, which would get the credential of this request: that is not passed on",
		}
	}
	log.Debug("A request to a cluster was lost")
	no := unavailable("the connection to cluster "+quote(e.at.Cluster)+" was lost before it answered", 0)
	if e.r.Method == http.MethodGet || e.r.Method == http.MethodHead {
		no.retryAfter = 1 // clients try again by themselves; what changes things may have done so already
	}
	return no
}

func clientGone() *refusal {
	return &refusal{code: statusClientClosed, reason: metav1.StatusReasonUnknown, message: "the client went away"}
}

// bufferSize is that of the buffers in which answers are copied, in bytes.
const bufferSize = 32 << 10

// buffers keeps them for the next request.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{pool: sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(used []byte) { b.pool.Put((*[bufferSize]byte)(used)) }
