package clusterproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var errNotConnected = errors.New("not connected")

// world is a management cluster with tokens and rules, and downstream clusters.
type world struct {
	t *testing.T

	mu       sync.Mutex
	users    map[string]authenticationv1.UserInfo // by token
	rules    map[string]bool                      // "USER VERB RESOURCE[/SUB] NAMESPACE/NAME"; * stands for any name
	asked    []string                             // rules that were reviewed
	reviewed []authenticationv1.TokenReviewSpec
	broken   error // error of all reviews
	clusters map[string]types.NamespacedName
	backends map[string]http.RoundTripper
	secrets  []*corev1.Secret
	records  []Record
	clientCA *x509.CertPool

	options Options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, users: map[string]authenticationv1.UserInfo{}, rules: map[string]bool{},
		clusters: map[string]types.NamespacedName{}, backends: map[string]http.RoundTripper{},
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	w.options = Options{
		Transport: w.transport, NotConnected: errNotConnected, Lookup: w.lookup,
		Tokens: w, TokenNamespace: "drover-system", TokenReviews: tokenReviewer{w}, AccessReviews: accessReviewer{w},
		ClientCA: func() *x509.CertPool { w.mu.Lock(); defer w.mu.Unlock(); return w.clientCA },
		Audit:    func(r Record) { w.mu.Lock(); defer w.mu.Unlock(); w.records = append(w.records, r) },
		Log:      log, Registerer: prometheus.NewRegistry(),
	}
	return w
}

// change changes the world while requests run.
func (w *world) change(do func(w *world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do(w)
}

// reviews is the number of access reviews until now.
func (w *world) reviews() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.asked)
}

// user registers a token whose user may reach the given clusters.
func (w *world) user(name string, clusters ...string) (token string) {
	token = "token-of-" + name
	w.users[token] = authenticationv1.UserInfo{Username: name, Groups: []string{"system:authenticated"}}
	for _, cluster := range clusters {
		w.rules[name+" get clusters fleet-default/"+cluster] = true
	}
	return token
}

// cluster registers a cluster with a handler on its own server, or without a connection if the handler is nil.
func (w *world) cluster(name string, backend http.Handler) (id string) {
	w.t.Helper()
	id = "c-m-" + name
	w.clusters[id] = types.NamespacedName{Namespace: "fleet-default", Name: name}
	if backend == nil {
		return id
	}
	server := httptest.NewUnstartedServer(backend)
	server.Config.ErrorLog = quiet()
	server.Start()
	w.t.Cleanup(server.Close)
	w.connect(id, server)
	return id
}

func (w *world) connect(id string, server *httptest.Server) {
	base, err := url.Parse(server.URL)
	check(w.t, err)
	transport := &http.Transport{DisableCompression: true}
	w.t.Cleanup(transport.CloseIdleConnections)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backends[id] = toBackend{base: base, to: transport}
}

// proxy serves the world with TLS and HTTP/2.
func (w *world) proxy() *httptest.Server {
	w.t.Helper()
	p, err := New(w.options)
	check(w.t, err)
	server := httptest.NewUnstartedServer(p)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	w.t.Cleanup(server.Close)
	return server
}

// ended waits for the records of count requests. A client may have its answer before they exist.
func (w *world) ended(server *httptest.Server, count int) []Record {
	w.t.Helper()
	server.Close() // waits for running requests, except upgraded ones
	var ended []Record
	for deadline := time.Now().Add(5 * time.Second); ; <-time.After(time.Millisecond) {
		w.mu.Lock()
		ended = slices.DeleteFunc(slices.Clone(w.records), func(r Record) bool { return r.Stage != StageEnded })
		w.mu.Unlock()
		if len(ended) >= count || time.Now().After(deadline) {
			break
		}
	}
	if len(ended) != count {
		w.t.Fatalf("%d requests ended, want %d: %+v", len(ended), count, ended)
	}
	return ended
}

func (w *world) lookup(id string) (namespace, name string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found, ok := w.clusters[id]
	return found.Namespace, found.Name, ok
}

func (w *world) transport(cluster string) (http.RoundTripper, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if found, ok := w.backends[cluster]; ok {
		return found, nil
	}
	return nil, fmt.Errorf("cluster %s: %w", cluster, errNotConnected)
}

func (w *world) GetByIndex(index, key string) ([]*corev1.Secret, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*corev1.Secret
	for _, secret := range w.secrets {
		keys, err := TokenIndexer(secret)
		if err != nil || index != TokenIndex {
			return nil, fmt.Errorf("index %s: %w", index, err)
		}
		if slices.Contains(keys, key) {
			found = append(found, secret)
		}
	}
	return found, nil
}

// toBackend sets scheme, host and credential, as a tunnel does.
type toBackend struct {
	base *url.URL
	to   http.RoundTripper
}

func (b toBackend) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = b.base.Scheme, b.base.Host, ""
	out.Header.Set("Authorization", "Bearer the-agents")
	return b.to.RoundTrip(out)
}

type tokenReviewer struct{ w *world }

func (f tokenReviewer) Create(_ context.Context, review *authenticationv1.TokenReview,
	_ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.reviewed = append(f.w.reviewed, review.Spec)
	if f.w.broken != nil {
		return nil, f.w.broken
	}
	out := review.DeepCopy()
	if user, ok := f.w.users[review.Spec.Token]; ok {
		out.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: *user.DeepCopy(),
			Audiences: review.Spec.Audiences}
	}
	return out, nil
}

type accessReviewer struct{ w *world }

func (f accessReviewer) Create(_ context.Context, review *authorizationv1.SubjectAccessReview,
	_ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if f.w.broken != nil {
		return nil, f.w.broken
	}
	a := review.Spec.ResourceAttributes
	resource := strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")
	asked := fmt.Sprintf("%s %s %s %s/", review.Spec.User, a.Verb, resource, a.Namespace)
	f.w.asked = append(f.w.asked, asked+a.Name)
	out := review.DeepCopy()
	out.Status.Allowed = f.w.rules[asked+a.Name] || f.w.rules[asked+"*"]
	return out, nil
}

// seen is a request as a cluster received it.
type seen struct {
	Cluster, Method, Target, Host string
	Header                        http.Header
	Body                          int64
}

// whoami answers with the request that it received.
func whoami(cluster string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(seen{cluster, r.Method, r.RequestURI, r.Host, r.Header, n})
	})
}

// reply is an answer without its body.
type reply struct {
	Proto      string
	StatusCode int
	Header     http.Header
	// rest is unread data after upgraded.
	rest io.Reader
}

// ask sends a request with a token and further headers ("Name: value") and returns the answer with its body.
func ask(t *testing.T, server *httptest.Server, method, target, token string, headers ...string) (reply, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+target, nil)
	check(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Do(r)
	check(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check(t, err)
	return reply{answer.Proto, answer.StatusCode, answer.Header, nil}, string(body)
}

// sees sends a request and returns what the cluster received.
func sees(t *testing.T, server *httptest.Server, method, target, token string, headers ...string) seen {
	t.Helper()
	answer, body := ask(t, server, method, target, token, headers...)
	var s seen
	if err := json.Unmarshal([]byte(body), &s); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s is answered with %d: %s", method, target, answer.StatusCode, body)
	}
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
