package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/reach/tunnel/wire"
	"github.com/drover-io/drover/pkg/reach/unread"
)

// forwarded lists the request headers that reach the API server. All others are dropped, especially impersonation
// headers and those of authenticating proxies.
var forwarded = []string{"Accept", "Accept-Encoding", "Authorization", "Content-Type", "User-Agent"}

// queryKeys lists the query parameters that an agent may use on its Secret.
var queryKeys = map[string]bool{
	"watch": true, "allowWatchBookmarks": true, "sendInitialEvents": true, "resourceVersion": true,
	"resourceVersionMatch": true,
	"timeoutSeconds":       true, "timeout": true, "limit": true, "continue": true, "fieldSelector": true,
	"fieldManager": true, "fieldValidation": true,
}

// planLookup returns the access of a token.
type planLookup func(ctx context.Context, token string) (grant, error)

// passthrough forwards the few Kubernetes API requests that an agent needs. The API server never sees refused requests.
type passthrough struct {
	grantOf    planLookup
	reports    reports
	allowances *allowances
	// composing limits the updates that are decoded at the same time, because that takes several times their size.
	composing chan struct{}
	unread    *unread.Ledger
	proxy     *httputil.ReverseProxy
	// watches is proxy with a small buffer.
	watches *httputil.ReverseProxy
	// ending is closed when this replica begins to shut down. recheck is the time between two checks of a token.
	ending  <-chan struct{}
	recheck time.Duration
	log     logrus.FieldLogger
}

func newPassthrough(o *Options, grantOf planLookup, reports reports) (*passthrough, error) {
	log := o.Log
	// Without Drover's credentials. Only the agent's own count at the API server.
	anonymous := rest.AnonymousClientConfig(o.Upstream)
	transport, err := narrowTransport(anonymous)
	if err != nil {
		return nil, err
	}
	target, _, err := rest.DefaultServerUrlFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	p := &passthrough{grantOf: grantOf, reports: reports, ending: o.Ending, recheck: recheckTime, log: log,
		unread:     o.Unread,
		allowances: newAllowances(o.MachineWrites, o.MachineWriteBytes, o.Now),
		composing:  make(chan struct{}, maxComposing)}
	p.proxy = &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // forward watch events immediately
		Rewrite:       func(r *httputil.ProxyRequest) { rewrite(r, target) },
		ModifyResponse: func(answer *http.Response) error {
			if held := leaseOf(answer.Request.Context()); held != nil {
				answer.Body = endWith(held.ended, answer.Body)
			}
			if to, ok := answer.Request.Context().Value(answerKey{}).(*unread.Writer); ok {
				answer.Body = to.From(answer.Body, unreadWatch)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				log.WithError(err).Warn("Cannot forward an agent's request to the API server")
			}
			refuse(w, http.StatusBadGateway, metav1.StatusReasonServiceUnavailable, "the API server is unreachable")
		},
	}
	watches := *p.proxy
	watches.BufferPool = wire.NewBuffers(watchBuffer)
	p.watches = &watches
	return p, nil
}

// watchBuffer is the size of the buffer that each open watch holds, in bytes. Every machine has a watch, which is idle
// most of the time. The standard library's buffer has 32 KiB.
const watchBuffer = 4 << 10

// answerKey is the context key of the answer to an agent.
type answerKey struct{}

// rewrite builds the outgoing request: same method, path, query and body, and only the necessary headers.
func rewrite(r *httputil.ProxyRequest, target *url.URL) {
	headers := http.Header{}
	for _, name := range forwarded {
		if values := r.In.Header.Values(name); len(values) > 0 {
			headers[name] = values
		}
	}
	r.Out.Header = headers
	if r.In.Method == http.MethodPut {
		headers.Set("Content-Type", "application/json")
	}
	r.Out.Host = ""
	r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
	r.Out.URL.Path = strings.TrimSuffix(target.Path, "/") + r.In.URL.Path
	r.Out.URL.RawPath = ""
}

func (p *passthrough) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !mayBeAllowed(r) {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "agents may not do this")
		return
	}
	presented := bearer(r)
	granted, err := p.grantOf(r.Context(), presented)
	if err != nil {
		p.refuseToken(w, err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+granted.token)
	if !allowed(r, granted.namespace, granted.name) {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "agents may not do this")
		return
	}
	if r.Method == http.MethodPut {
		p.update(w, r, granted)
		return
	}
	if wait := p.allowances.read(granted.key()); wait > 0 {
		refuseForNow(w, wait)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if r.URL.Query().Has("watch") {
		p.watch(w, r, presented, granted)
		return
	}
	p.forward(w, r, granted.namespace, p.proxy)
}

// forward forwards a request by a proxy, and ends it when the agent stops reading the answer.
func (p *passthrough) forward(w http.ResponseWriter, r *http.Request, namespace string, by *httputil.ReverseProxy) {
	answer := p.unread.Writer(w, namespace, unreadWatch)
	defer answer.Done()
	by.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), answerKey{}, answer)))
}

// update forwards an update, reduced to what an agent may change. It checks the machine's allowance before it reads the
// body.
func (p *passthrough) update(w http.ResponseWriter, r *http.Request, granted grant) {
	release, wait := p.allowances.update(granted.key(), r.ContentLength)
	if wait > 0 {
		refuseForNow(w, wait)
		return
	}
	defer release()
	raw, err := readBody(w, r, bodyTime)
	var body []byte
	if err == nil {
		body, err = p.compose(r.Header.Get("Content-Type"), raw, granted)
	}
	// A small report makes the API server store the complete Secret again.
	p.allowances.spend(granted.key(), max(len(raw), len(body)))
	if err != nil {
		p.refuseUpdate(w, granted, err)
		return
	}
	replaceBody(r, body)
	p.forward(w, r, granted.namespace, p.proxy)
}

// compose is reports.compose for few updates at the same time.
func (p *passthrough) compose(contentType string, raw []byte, granted grant) ([]byte, error) {
	p.composing <- struct{}{}
	defer func() { <-p.composing }()
	return p.reports.compose(contentType, raw, granted.namespace, granted.name)
}

// watch forwards a watch as long as its token grants it.
func (p *passthrough) watch(w http.ResponseWriter, r *http.Request, presented string, granted grant) {
	ctx, held := newLease(r.Context())
	defer held.end()
	defer p.allowances.watch(granted.key(), held)()
	go held.keep(p.ending, p.recheck, func() bool {
		again, err := p.grantOf(ctx, presented)
		// Other errors say nothing about the token.
		return !errors.Is(err, errUnknown) && (err != nil || again.key() == granted.key())
	})
	p.forward(w, r.WithContext(ctx), granted.namespace, p.watches)
}

// refuseForNow answers when a machine has used up its allowance. Kubernetes clients try again after the given time.
func refuseForNow(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", seconds(wait))
	refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "this machine sends too many requests "+
		"or too many bytes")
}

// refuseToken answers when a token grants no access, or none yet.
func (p *passthrough) refuseToken(w http.ResponseWriter, err error) {
	var no *refusal
	switch {
	case errors.Is(err, errUnknown):
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "the token must be the token of a "+
			"machine's agent")
	case errors.As(err, &no):
		w.Header().Set("Retry-After", "5")
		refuse(w, no.code, metav1.StatusReasonServiceUnavailable, no.message)
	case errors.Is(err, context.Canceled):
	default:
		p.log.WithError(err).Warn("Cannot look up the rights of a token")
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the server cannot look up "+
			"the token")
	}
}

// refuseUpdate answers an update that cannot be forwarded. After a conflict, agents reread the Secret.
func (p *passthrough) refuseUpdate(w http.ResponseWriter, granted grant, err error) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, nodeplan.ErrTooLarge):
		if p.allowances.notes(granted.key()) {
			p.log.WithField("secret", granted.key()).WithError(err).Warn("Refused the report of a machine")
		}
		refuse(w, http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, err.Error())
	case errors.Is(err, errBody):
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	case errors.As(err, &tooLarge):
		refuse(w, http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "the body is too large")
	case apierrors.IsConflict(err):
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, err.Error())
	case apierrors.IsNotFound(err):
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the plan secret does not exist")
	default:
		p.log.WithError(err).Warn("Cannot forward an agent's report")
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the API server is unreachable")
	}
}

// mayBeAllowed refuses what no agent may request, before the token is checked. So the answer does not reveal whether a
// token is valid.
func mayBeAllowed(r *http.Request) bool {
	return r.URL.RawPath == "" && r.URL.EscapedPath() == r.URL.Path && r.URL.Opaque == "" && !wantsUpgrade(r) &&
		!impersonates(r) &&
		(discovery(r.URL.Path) || strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"))
}

func discovery(path string) bool { return path == "/version" || path == "/api" || path == "/apis" }

func wantsUpgrade(r *http.Request) bool {
	if r.Header.Get("Upgrade") != "" {
		return true
	}
	for _, value := range r.Header.Values("Connection") {
		if strings.Contains(strings.ToLower(value), "upgrade") {
			return true
		}
	}
	return false
}

func impersonates(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}

// allowed reports whether an agent needs a request for the given plan Secret. Paths must match completely, and the
// query must be fully understood.
func allowed(r *http.Request, namespace, name string) bool {
	query, ok := understood(r.URL.RawQuery)
	if !ok {
		return false
	}
	collection := "/api/v1/namespaces/" + namespace + "/secrets"
	watches := query.Has("watch")
	read := r.Method == http.MethodGet
	switch {
	case discovery(r.URL.Path):
		return read && !watches && !query.Has("fieldSelector")
	case r.URL.Path == collection:
		return read && query.Get("fieldSelector") == "metadata.name="+name
	case r.URL.Path == collection+"/"+name:
		return (read || r.Method == http.MethodPut) && !watches && !query.Has("fieldSelector")
	}
	return false
}

// understood parses a query. ok is false for unneeded parameters and for duplicates, which the API server might
// interpret differently.
func understood(raw string) (query url.Values, ok bool) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, false
	}
	for key, values := range query {
		if !queryKeys[key] || len(values) != 1 {
			return nil, false
		}
	}
	return query, true
}

// refuse answers in the form that Kubernetes clients understand.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // fails only when the client has disconnected
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}
