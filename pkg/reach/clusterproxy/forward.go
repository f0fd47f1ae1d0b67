package clusterproxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
)

// Reasons why a request ended, in addition to the transport's errors.
var (
	errDeadline        = errors.New("the request took too long")
	errAgentRefused    = errors.New("the cluster refused the credential of its agent")
	errRedirected      = errors.New("the cluster redirects to another host")
	errNoStatus        = errors.New("the cluster's answer has an invalid HTTP status")
	errUnaskedProtocol = errors.New("the cluster changed the protocol without a request for it")
)

// forward forwards a request and streams the answer.
func (p *Proxy) forward(e *exchange) {
	ctx := context.WithValue(e.r.Context(), exchangeKey{}, e)
	body := e.r.Body
	e.forwarded = true
	if e.long {
		p.options.Audit(e.record(StageStarted))
		var end context.CancelCauseFunc
		ctx, end = context.WithCancelCause(ctx)
		defer end(nil)
		defer func() {
			if over, ok := errors.AsType[*ended](context.Cause(ctx)); ok {
				e.reason = over.reason
			}
		}()
		e.w.until = ctx
		if body != nil && body != http.NoBody && e.upgrade == "" {
			upload := e.newUpload(end)
			defer upload.stop()
			body = upload
		}
		defer e.supervise()() // before guard, which also uses the writer
		defer e.guard(ctx, end)()
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.options.RequestTimeout, errDeadline)
		defer cancel()
		defer e.supervise()()
	}
	e.setDeadlines()

	out := e.r.Clone(ctx)
	out.URL, _ = e.at.url(e.r.URL) // decoding succeeded before
	out.Host, out.RequestURI, out.Trailer, out.TransferEncoding = e.at.Cluster, "", nil, nil
	out.Header = outboundHeaders(e.r.Header, e.what.As, e.upgrade, e.id)
	if out.Body != nil && out.Body != http.NoBody {
		out.Body = &countingBody{ReadCloser: body, recorder: e.w}
	}
	p.forwarder.ServeHTTP(e.w, out)
}

// setDeadlines replaces the listener's deadlines, which are for requests that the server answers itself. The new
// deadlines also end clients that neither read nor send, because they would otherwise hold a slot forever. Long-running
// requests have no deadline: supervise and upload end their clients. Errors are ignored, because some connections
// support no deadlines.
func (e *exchange) setDeadlines() {
	var until time.Time
	if life := e.proxy.options.RequestTimeout; !e.long {
		until = time.Now().Add(life + min(life, lastWords))
	}
	control := http.NewResponseController(e.w)
	_ = control.SetWriteDeadline(until)
	// Without a body there is nothing to read. In HTTP/1, net/http then removes the listener's own deadline. In HTTP/2,
	// the deadline ends only bodies.
	if e.r.ContentLength != 0 {
		_ = control.SetReadDeadline(until)
	}
}

// lastWords is how long a client may take to read the answer to a request that timed out.
const lastWords = 5 * time.Second

// rewrite restores what httputil removes from the finished request: headers that look like the client's, and unparsable
// parts of the query.
func rewrite(r *httputil.ProxyRequest) {
	maps.Copy(r.Out.Header, r.In.Header)
	r.Out.URL.RawQuery = r.In.URL.RawQuery
}

// byExchange sends a request through its exchange's transport.
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
	answer.Request = r // the transport may have replaced it
	if body, ok := answer.Body.(holder); ok {
		e.answer.Hold(body.Holds())
	}
	if r.Body != nil && answer.StatusCode != http.StatusSwitchingProtocols {
		answer.Body = closedAtOnce{answer.Body}
	}
	return answer, nil
}

// closedAtOnce is the body of an answer whose Close returns immediately. In HTTP/2 of net/http, Close waits until
// nothing reads the request's body any more. A refused client may send no more of that body until the answer ends, and
// the answer ends only after Close has returned.
type closedAtOnce struct{ io.ReadCloser }

// Close implements io.Closer.
func (a closedAtOnce) Close() error {
	go func() { _ = a.ReadCloser.Close() }()
	return nil
}

// modify checks and changes an answer before it is forwarded.
func modify(answer *http.Response) error {
	e := exchangeOf(answer.Request.Context())
	// net/http accepts any status from an agent. The recorder would drop this one and count what follows as success.
	if answer.StatusCode < http.StatusOK && answer.StatusCode != http.StatusSwitchingProtocols {
		return errNoStatus
	}
	// httputil detects this too, but leaves the connection open.
	if answer.StatusCode == http.StatusSwitchingProtocols &&
		(e.upgrade == "" || !strings.EqualFold(answer.Header.Get("Upgrade"), e.upgrade)) {
		return errUnaskedProtocol
	}
	// The caller is already authenticated here. A 401 means that the API server refuses the agent's credential.
	// Forwarding it would make clients drop their own valid credential. Workloads behind the API server's proxy may
	// send a 401 of their own.
	if answer.StatusCode == http.StatusUnauthorized && e.kind.Subresource != "proxy" {
		return errAgentRefused
	}
	away := cleanAnswer(answer.Header, e.at, append(e.hosts, e.at.Cluster, e.r.Host))
	if away && answer.StatusCode >= http.StatusMultipleChoices && answer.StatusCode < http.StatusBadRequest {
		return errRedirected
	}
	if len(answer.Header[auditIDHeader]) == 0 {
		answer.Header.Set(auditIDHeader, e.id)
	}
	wire.PassOn(answer)
	answer.Body = e.answer.From(answer.Body, unreadUpgrade)
	return nil
}

// failed answers when the cluster gave no answer.
func failed(_ http.ResponseWriter, r *http.Request, err error) {
	e := exchangeOf(r.Context())
	e.refuse(e.proxy.lost(e, context.Cause(r.Context()), err))
}

// lost returns the refusal for a request without an answer. cause is why the request's context ended, or nil.
func (p *Proxy) lost(e *exchange, cause, err error) *refusal {
	log := p.options.Log.WithError(err).WithField("clusterID", e.at.Cluster)
	var over *ended
	switch {
	case errors.Is(cause, errDeadline):
		return &refusal{
			code: http.StatusGatewayTimeout, reason: metav1.StatusReasonTimeout,
			message: "cluster " + quote(e.at.Cluster) + " did not answer within " + p.options.RequestTimeout.String(),
		}
	case errors.As(cause, &over):
		return over.answer
	case cause != nil:
		return clientGone()
	case errors.Is(err, errAgentRefused):
		log.Warn("A cluster refuses the credential of its agent")
		return unavailable("cluster "+quote(e.at.Cluster)+" does not accept the credential of its own agent", 0)
	case errors.Is(err, errRedirected):
		log.Warn("Refused a redirect of a cluster to another host")
		return &refusal{
			code: http.StatusBadGateway, reason: metav1.StatusReasonInternalError,
			message: "cluster " + quote(e.at.Cluster) + " redirects to another host, which would get the credential " +
				"of this request: the redirect is refused",
		}
	}
	log.Debug("A connection to a cluster was lost")
	no := unavailable("the connection to cluster "+quote(e.at.Cluster)+" was lost before it answered", 0)
	if e.r.Method == http.MethodGet || e.r.Method == http.MethodHead {
		no.retryAfter = 1 // clients retry by themselves; a request that changes something may have succeeded
	}
	return no
}

func clientGone() *refusal {
	return &refusal{code: statusClientClosed, reason: metav1.StatusReasonUnknown, message: "the client disconnected"}
}

// bufferSize is the size of buffers for copying answers, in bytes.
const bufferSize = 32 << 10
