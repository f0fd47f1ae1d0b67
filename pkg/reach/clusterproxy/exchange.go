package clusterproxy

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/drover-io/drover/pkg/reach/unread"
)

// exchange is one request and its state.
type exchange struct {
	proxy  *Proxy
	w      *recorder
	r      *http.Request
	start  time.Time
	id     string
	at     target
	verb   string
	kind   *request.RequestInfo
	long   bool
	caller Caller
	what   decision
	// upgrade is the requested protocol of the connection, or "".
	upgrade string
	// transport reaches the cluster.
	transport http.RoundTripper
	// answer supervises the client of a forwarded request.
	answer *unread.Writer
	// hosts are the host names that mean the cluster in its own answer.
	hosts []string
	// forwarded means that the cluster may have received the request.
	forwarded bool
	// tokenID is the identifier of the issued token.
	tokenID string
	cut     bool
	// reason is why Drover ended the request.
	reason string
}

// exchangeKey is the context key of a forwarded request's exchange.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

func (p *Proxy) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	return &exchange{proxy: p, w: &recorder{ResponseWriter: w}, r: r, start: time.Now(), id: requestID(r.Header),
		verb: otherVerb}
}

// requestID is the client's audit ID for the request if it is valid, or a new one.
func requestID(in http.Header) string {
	if values := in[auditIDHeader]; len(values) == 1 && isRequestID(values[0]) {
		return values[0]
	}
	return uuid.NewString()
}

func isRequestID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Path prefixes of the Kubernetes API.
var requestInfo = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// Requests that Kubernetes treats as long-running.
var (
	longVerbs        = []string{"watch", "proxy"}
	longSubresources = []string{"attach", "exec", "proxy", "log", "portforward"}
)

// classify parses a request as Kubernetes does: verb, resource, protocol switch, and whether it is long-running.
func (e *exchange) classify() *refusal {
	url, ok := e.at.url(e.r.URL)
	if !ok {
		return badRequest("the path cannot be decoded")
	}
	e.upgrade = upgradeOf(e.r.Header)
	kind, err := requestInfo.NewRequestInfo(&http.Request{Method: e.r.Method, URL: url})
	if err != nil {
		kind = &request.RequestInfo{}
	}
	e.kind, e.verb = kind, verbLabel(kind.Verb)
	e.long = e.upgrade != "" || kind.IsResourceRequest &&
		(slices.Contains(longVerbs, kind.Verb) || slices.Contains(longSubresources, kind.Subresource))
	return nil
}

// record returns the Record for the audit.
func (e *exchange) record(stage Stage) Record {
	r := Record{
		Stage: stage, Time: e.start, RequestID: e.id, User: e.caller.Name, Cluster: e.at.Cluster, Verb: e.verb,
		Method: e.r.Method,
		Path:   e.at.Rest[:min(len(e.at.Rest), maxAuditPath)], LongRunning: e.long,
	}
	if e.what.Asked != nil {
		r.Impersonated = e.what.Asked.Name
	}
	r.TokenID = e.tokenID
	if e.forwarded || e.tokenID != "" {
		r.Downstream = e.what.As.Name
	}
	if stage == StageEnded {
		r.Status, r.Cut, r.Duration, r.Reason = e.w.status, e.cut, time.Since(e.start), e.reason
		r.Received, r.Sent = e.w.received.Load(), e.w.sent.Load()
	}
	return r
}

// refuse answers instead of the cluster, unless an answer has begun.
func (e *exchange) refuse(no *refusal) {
	if no.rejected != "" {
		e.proxy.metrics.Reject(no.rejected)
	}
	if e.w.status != 0 {
		return
	}
	e.w.Header().Set(auditIDHeader, e.id)
	no.write(e.w)
}
