package scaling

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/decide/autoscaling"
	"github.com/drover-io/drover/pkg/decide/naming"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/reach/unread"
)

// Prefix is the prefix of all paths.
const Prefix = autoscaling.PathPrefix

const (
	// indexTokens finds Secrets by the digest of their token, so that neither the index nor the time of a lookup
	// reveals anything about a token.
	indexTokens = "scaling.drover.io/token"
	// longestRequest ends a watch, and so limits how long it outlives its token. Clients watch for 10 minutes at most.
	longestRequest = 11 * time.Minute
	// maxOpen limits the requests of one cluster in progress; an autoscaler has a watch for each of four kinds.
	maxOpen = 24
	// perSecond and burst limit the requests of one cluster. An autoscaler sends 5 in a second, 10 at once.
	perSecond, burst = 20, 40
	// maxBody limits the body of an update. A Machine is small.
	maxBody = 256 << 10
	// maxGroups limits the list of API groups that is read.
	maxGroups = 4 << 20
)

// answers is what an answer holds while the autoscaler reads nothing: the default window of clients.
var answers = unread.Kind{Holds: 4<<20 + 64<<10}

// Options are the dependencies. Start the cache's factory after New, because New adds an index to the cache.
type Options struct {
	// Upstream is the address and TLS configuration of the Kubernetes API. Its credentials are never used.
	Upstream *rest.Config
	Secrets  corecontrollers.SecretCache
	// Clusters have the limits of pools.
	Clusters provcontrollers.ClusterCache
	// Unread ends answers that an autoscaler does not read.
	Unread *unread.Ledger
	// Ending is closed when this replica begins to shut down. Then watches end.
	Ending <-chan struct{}
	Log    logrus.FieldLogger
}

type server struct {
	Options
	proxy *httputil.ReverseProxy

	mu    sync.Mutex
	using map[string]*usage
}

// usage counts the requests of one cluster.
type usage struct {
	open  int
	rates *rate.Limiter
}

// New returns the handler of Prefix.
func New(o Options) (http.Handler, error) {
	anonymous := rest.AnonymousClientConfig(o.Upstream)
	transport, err := rest.TransportFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("make transport to the API server: %w", err)
	}
	target, _, err := rest.DefaultServerUrlFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	o.Secrets.AddIndexer(indexTokens, digests)
	s := &server{Options: o, using: map[string]*usage{}}
	s.proxy = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, // forward watch events immediately
		Rewrite: func(r *httputil.ProxyRequest) { rewrite(r, target) },
		ModifyResponse: func(answer *http.Response) error {
			if to, ok := answer.Request.Context().Value(answerKey{}).(*unread.Writer); ok {
				answer.Body = to.From(answer.Body, answers)
			}
			if strings.HasSuffix(answer.Request.URL.Path, "/apis") && answer.StatusCode == http.StatusOK {
				return reduceGroups(answer)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				o.Log.WithError(err).Warn("Cannot forward an autoscaler's request to the API server")
			}
			refuse(w, http.StatusBadGateway, metav1.StatusReasonServiceUnavailable, "the API server is unreachable")
		},
	}
	return s, nil
}

// digests returns the digests of the valid tokens of an autoscaler's Secret.
func digests(secret *corev1.Secret) ([]string, error) {
	token := secret.Data[autoscaling.KeyToken]
	if _, ok := autoscaling.IsKubeconfig(secret); !ok || len(token) == 0 {
		return nil, nil
	}
	keys := []string{naming.SHA256(token)}
	if former := secret.Annotations[autoscaling.FormerTokenAnnotation]; former != "" {
		keys = append(keys, former)
	}
	return keys, nil
}

// answerKey is the context key of the answer to an autoscaler.
type answerKey struct{}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, ok := bearer(r)
	if !ok {
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "the token must be that of an autoscaler")
		return
	}
	found, err := s.Secrets.GetByIndex(indexTokens, naming.SHA256(token))
	if err != nil || len(found) == 0 {
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "the token must be that of an autoscaler")
		return
	}
	name, _ := autoscaling.IsKubeconfig(found[0])
	narrowed, err := narrow(r, found[0].Namespace, name)
	if err != nil {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
		return
	}
	if narrowed.path == "/api" {
		answer(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"},
			Versions: []string{}})
		return
	}
	key := found[0].Namespace + "/" + name
	leave, wait := s.enter(key)
	if leave == nil {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "this autoscaler sends too many "+
			"requests")
		return
	}
	defer leave()
	s.forward(w, r, types.NamespacedName{Namespace: found[0].Namespace, Name: name}, narrowed)
}

// reduce keeps of a write what an autoscaler may change.
func (s *server) reduce(r *http.Request, of types.NamespacedName, to request) error {
	switch {
	case to.marks:
		return mark(r)
	case to.scales == "":
		return nil
	}
	cluster, err := s.Clusters.Get(of.Namespace, of.Name)
	if err != nil {
		return errNotAllowed
	}
	largest, sized := autoscaling.Largest(cluster, to.scales)
	if !sized {
		return errNotAllowed
	}
	return size(r, largest)
}

// forward forwards a request, and ends it when the autoscaler stops reading or this replica shuts down.
func (s *server) forward(w http.ResponseWriter, r *http.Request, of types.NamespacedName, to request) {
	ctx, cancel := context.WithTimeout(r.Context(), longestRequest)
	defer cancel()
	if s.Ending != nil {
		go func() {
			select {
			case <-s.Ending:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	reader := s.Unread.Writer(w, of.Namespace, answers)
	defer reader.Done()
	out := r.Clone(context.WithValue(ctx, answerKey{}, reader))
	out.URL.Path, out.URL.RawPath, out.URL.RawQuery = to.path, "", to.query.Encode()
	out.Body = http.MaxBytesReader(w, r.Body, maxBody)
	switch err := s.reduce(out, of, to); {
	case errors.Is(err, errNotAllowed):
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	s.proxy.ServeHTTP(reader, out)
}

// enter counts a request of a cluster. leave is nil if it has too many.
func (s *server) enter(key string) (leave func(), wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.using[key]
	if u == nil {
		u = &usage{rates: rate.NewLimiter(perSecond, burst)}
		s.using[key] = u
	}
	if u.open >= maxOpen || !u.rates.Allow() {
		return nil, time.Second
	}
	u.open++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if u.open--; u.open == 0 && u.rates.Tokens() >= burst {
			delete(s.using, key)
		}
	}, 0
}

// rewrite builds the outgoing request with the necessary headers only.
func rewrite(r *httputil.ProxyRequest, target *url.URL) {
	headers := http.Header{}
	for _, name := range []string{"Accept", "Authorization", "Content-Type", "User-Agent"} {
		if values := r.In.Header.Values(name); len(values) > 0 {
			headers[name] = values
		}
	}
	if r.In.URL.Path == "/apis" { // in the form that reduceGroups reads
		headers["Accept"] = []string{"application/json"}
	}
	r.Out.Header = headers
	r.Out.Host = ""
	r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
	r.Out.URL.Path = strings.TrimSuffix(target.Path, "/") + r.In.URL.Path
}

// reduceGroups removes all groups but that of Cluster API from the list of API groups.
func reduceGroups(answer *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxGroups))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return fmt.Errorf("read the API groups: %w", err)
	}
	list := &metav1.APIGroupList{}
	if err := json.Unmarshal(raw, list); err != nil {
		return fmt.Errorf("read the API groups: %w", err)
	}
	list.Groups = slices.DeleteFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name != group })
	if raw, err = json.Marshal(list); err != nil {
		return fmt.Errorf("encode the API groups: %w", err)
	}
	answer.Body = io.NopCloser(bytes.NewReader(raw))
	answer.ContentLength = int64(len(raw))
	answer.Header.Set("Content-Length", strconv.Itoa(len(raw)))
	answer.Header.Del("Etag")
	return nil
}

// bearer returns the token of a request.
func bearer(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // fails only when the client has disconnected
}

// refuse answers in the form that Kubernetes clients understand.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	answer(w, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}
