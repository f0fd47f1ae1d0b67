package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/build"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fakeAPI is a management cluster that knows tokens and forbids by namespace.
type fakeAPI struct {
	*memkube.Server
	server *httptest.Server

	mu      sync.Mutex
	users   map[string]string          // by token
	before  func(r *http.Request)      // runs before each request
	forbids map[string]map[string]bool // user to namespaces; "" is all namespaces
	permits map[string]string          // user to a resource that no namespace forbids
	expires bool                       // every watch is too old
	reviews int
	seen    []*http.Request
	breaks  func(path string) bool // cuts the answer to a request
}

const token = "token-of-ann"

func newFakeAPI(t *testing.T, objects ...runtime.Object) *fakeAPI {
	t.Helper()
	scheme, err := clients.NewScheme()
	check(t, err)
	f := &fakeAPI{users: map[string]string{token: "ann", "token-of-bob": "bob"}, forbids: map[string]map[string]bool{}}
	f.Server = memkube.New(memkube.Options{Scheme: scheme, Namespaces: []string{build.Namespace, "team-a", "team-b",
		"drover-system", "cattle-global-data"}, Permit: f.permit})
	check(t, f.Add(objects...))
	return f
}

// serve makes the API reachable over TLS.
func (f *fakeAPI) serve(t *testing.T) *rest.Config {
	t.Helper()
	f.server = httptest.NewTLSServer(f)
	t.Cleanup(func() {
		_ = f.server.Config.Close() // ends the watches of hubs, for which Close would wait
		f.server.Close()
	})
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	return &rest.Config{Host: f.server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}
}

// forbid takes the rights of a user in a namespace.
func (f *fakeAPI) forbid(user, namespace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.forbids[user] == nil {
		f.forbids[user] = map[string]bool{}
	}
	f.forbids[user][namespace] = true
}

// permitKind lets a user read all objects of a kind.
func (f *fakeAPI) permitKind(user, resource string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.permits = map[string]string{user: resource}
}

func (f *fakeAPI) revoke(token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.users, token)
}

func (f *fakeAPI) permit(r memkube.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.expires && r.Verb == "watch" {
		return apierrors.NewResourceExpired("too old")
	}
	user := strings.TrimPrefix(r.Agent, "user:")
	if r.Resource.Resource == "configmaps" || r.Resource.Resource == f.permits[user] || !f.forbids[user][r.Namespace] {
		return nil
	}
	return apierrors.NewForbidden(r.Resource.GroupResource(), r.Name, io.ErrNoProgress)
}

func (f *fakeAPI) hook() func(r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.before
}

// ServeHTTP implements http.Handler.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if before := f.hook(); before != nil {
		before(r)
	}
	f.mu.Lock()
	f.seen = append(f.seen, r)
	user := f.users[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	breaks := f.breaks != nil && f.breaks(r.URL.Path)
	f.mu.Unlock()
	if breaks { // client-go would wait for seconds to repeat a read without an answer
		w.Header().Set("Content-Length", "2")
		_, _ = w.Write([]byte("{"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	if user == "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(apierrors.NewUnauthorized("no").Status())
		return
	}
	r.Header.Set("User-Agent", "user:"+user)
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/selfsubjectreviews"):
		f.mu.Lock()
		f.reviews++
		f.mu.Unlock()
		answer(w, &authenticationv1.SelfSubjectReview{TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectReview",
			APIVersion: "authentication.k8s.io/v1"}, Status: authenticationv1.SelfSubjectReviewStatus{
			UserInfo: authenticationv1.UserInfo{Username: user, Groups: []string{"system:authenticated"}}}})
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		var review authorizationv1.SelfSubjectAccessReview
		body, _ := io.ReadAll(r.Body)
		if _, _, err := kubescheme.Codecs.UniversalDeserializer().Decode(body, nil, &review); err != nil {
			panic(err)
		}
		review.Kind, review.APIVersion = "SelfSubjectAccessReview", "authorization.k8s.io/v1"
		f.mu.Lock()
		review.Status.Allowed = !f.forbids[user][review.Spec.ResourceAttributes.Namespace] &&
			(user == "ann" || review.Spec.ResourceAttributes.Verb == "list")
		f.mu.Unlock()
		answer(w, &review)
	case strings.Contains(path, "/secrets/") && strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"):
		recorder := httptest.NewRecorder()
		f.Server.ServeHTTP(recorder, r)
		var object metav1.PartialObjectMetadata
		_ = json.Unmarshal(recorder.Body.Bytes(), &object)
		object.Kind, object.APIVersion = "PartialObjectMetadata", "meta.k8s.io/v1"
		answer(w, &object)
	default:
		f.Server.ServeHTTP(w, r)
	}
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

// RoundTrip implements http.RoundTripper for tests in virtual time. Its requests are those of ann.
func (f *fakeAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	known := f.users[token] != ""
	f.mu.Unlock()
	if known && !strings.Contains(r.URL.Path, "/selfsubject") {
		r = r.Clone(r.Context())
		r.Header.Set("User-Agent", "user:ann")
		return f.Server.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	recorder := httptest.NewRecorder()
	f.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// page is a browser with cookies.
type page struct {
	t       *testing.T
	handler http.Handler
	base    string
	cookies map[string]*http.Cookie
	csrf    string
}

func options(config *rest.Config) Options {
	log := logrus.New()
	log.SetOutput(io.Discard)
	key := randomKey()
	return Options{Config: config, Version: "v1.2.3", Log: log,
		Key: func(context.Context) ([]byte, error) { return key, nil }}
}

func newPage(t *testing.T, opts Options) *page {
	t.Helper()
	handler, err := New(opts)
	check(t, err)
	base := "https://drover.example.com"
	if opts.LocalToken != "" {
		base = "http://127.0.0.1:4000"
	}
	return &page{t: t, handler: handler, base: base, cookies: map[string]*http.Cookie{}}
}

// request returns a request as the page sends it.
func (p *page) request(method, path, body string) *http.Request {
	p.t.Helper()
	r := httptest.NewRequestWithContext(p.t.Context(), method, p.base+path, strings.NewReader(body))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method != http.MethodGet {
		r.Header.Set("Origin", p.base)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(csrfHeader, p.csrf)
	}
	for _, cookie := range p.cookies {
		r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	}
	return r
}

func (p *page) do(r *http.Request) *httptest.ResponseRecorder {
	p.t.Helper()
	recorder := httptest.NewRecorder()
	p.handler.ServeHTTP(recorder, r)
	for _, cookie := range recorder.Result().Cookies() {
		if cookie.MaxAge < 0 {
			delete(p.cookies, cookie.Name)
		} else {
			p.cookies[cookie.Name] = cookie
		}
	}
	return recorder
}

func (p *page) get(path string) *httptest.ResponseRecorder {
	p.t.Helper()
	return p.do(p.request(http.MethodGet, path, ""))
}

func (p *page) signIn(token string) *httptest.ResponseRecorder {
	p.t.Helper()
	body, err := json.Marshal(signInBody{token})
	check(p.t, err)
	recorder := p.do(p.request(http.MethodPost, "/ui/api/v1/session", string(body)))
	var session sessionBody
	if recorder.Code == http.StatusOK {
		check(p.t, json.Unmarshal(recorder.Body.Bytes(), &session))
		p.csrf = session.CSRF
	}
	return recorder
}

// relax forgets the past requests of all callers, for tests that do not test limits.
func (p *page) relax() {
	p.t.Helper()
	u, ok := p.handler.(*ui)
	if !ok {
		p.t.Fatal("the handler is no ui")
	}
	u.limits = newLimits(time.Now)
}

// signedIn is a page of ann.
func signedIn(t *testing.T, f *fakeAPI) *page {
	t.Helper()
	p := newPage(t, options(f.serve(t)))
	if got := p.signIn(token); got.Code != http.StatusOK {
		t.Fatalf("sign in: %d %s", got.Code, got.Body)
	}
	return p
}

// wants compares a failure.
func wants(t *testing.T, got *httptest.ResponseRecorder, code int, reason string) {
	t.Helper()
	var body errorBody
	_ = json.Unmarshal(got.Body.Bytes(), &body)
	if got.Code != code || body.Reason != reason || body.Error == "" {
		t.Errorf("got %d %s, want %d and reason %s", got.Code, bytes.TrimSpace(got.Body.Bytes()), code, reason)
	}
}

func decode[T any](t *testing.T, got *httptest.ResponseRecorder) T {
	t.Helper()
	var out T
	if got.Code != http.StatusOK {
		t.Fatalf("got %d %s", got.Code, got.Body)
	}
	check(t, json.Unmarshal(got.Body.Bytes(), &out))
	return out
}

func secretObject(namespace, name string, data map[string]string) *corev1.Secret {
	out := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		out.Data[key] = []byte(value)
	}
	return out
}

// client is an administrator of the fake management cluster.
func (f *fakeAPI) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(f.Config("admin"))
	check(t, err)
	return client
}
