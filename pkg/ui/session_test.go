package ui

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestAnonymous_HasNoCredential(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(file, []byte("server"), 0o600))
	config := &rest.Config{Host: "https://api.example.com", BearerToken: "server", BearerTokenFile: file,
		Username: "server", Password: "server",
		ExecProvider: &clientcmdapi.ExecConfig{Command: "server"},
		AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "server"},
		Impersonate:  rest.ImpersonationConfig{UserName: "server"},
		TLSClientConfig: rest.TLSClientConfig{CertData: []byte("server"), KeyData: []byte("server"), CertFile: "server",
			KeyFile: "server", CAData: []byte("authority")},
		RateLimiter: nil, QPS: 3, Burst: 4,
	}
	got := Anonymous(config)
	want := &rest.Config{Host: "https://api.example.com", QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte("authority")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
}

func TestSignIn_SealsTheTokenIntoACookie(t *testing.T) {
	f := newFakeAPI(t)
	p := newPage(t, options(f.serve(t)))
	wants(t, p.get("/ui/api/v1/session"), http.StatusUnauthorized, reasonUnauthorized)
	got := p.signIn(token)
	if got.Code != http.StatusOK {
		t.Fatalf("got %d %s", got.Code, got.Body)
	}
	cookie := p.cookies["__Secure-drover-ui"]
	if cookie == nil || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode ||
		cookie.Path != "/ui/" || cookie.Domain != "" || cookie.MaxAge < 8*3600-5 || cookie.MaxAge > 8*3600 {
		t.Errorf("cookie %+v", cookie)
	}
	raw, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || bytes.Contains(raw, []byte(token)) || strings.Contains(cookie.Value, token) {
		t.Errorf("the cookie shows the token (%v)", err)
	}
	session := decode[sessionBody](t, p.get("/ui/api/v1/session"))
	if session.User != "ann" || session.Mode != "server" || session.Version != "v1.2.3" || session.CSRF == "" ||
		session.Expires == nil {
		t.Errorf("session %+v", session)
	}
	if got.Header().Get("Cache-Control") != "no-store" {
		t.Error("a browser may store the session")
	}
	gone := p.do(p.request(http.MethodDelete, "/ui/api/v1/session", ""))
	if gone.Code != http.StatusNoContent || len(p.cookies) != 0 {
		t.Errorf("sign out: %d, %d cookies", gone.Code, len(p.cookies))
	}
}

// pageOfCluster is an address that a cluster answers.
const pageOfCluster = "https://drover.example.com/k8s/clusters/c-m-1/page"

func TestSignIn_Refuses(t *testing.T) {
	for name, tc := range map[string]struct {
		token  string
		change func(*http.Request)
		code   int
		reason string
	}{
		"an unknown token":         {token: "other", code: 401, reason: reasonUnauthorized},
		"no token":                 {code: 401, reason: reasonUnauthorized},
		"two words":                {token: "a b", code: 401, reason: reasonUnauthorized},
		"a token that is too long": {token: strings.Repeat("x", 17<<10), code: 401, reason: reasonUnauthorized},
		"a token for no cookie":    {token: strings.Repeat("y", 12<<10), code: 400, reason: reasonInvalid},
		"a page of another site": {token: token, change: header("Sec-Fetch-Site", "cross-site"), code: 403,
			reason: reasonForbidden},
		"a page of another origin": {token: token, change: header("Origin", "https://evil.example.com"), code: 403,
			reason: reasonForbidden},
		"a page without an origin": {token: token, change: header("Origin", "null"), code: 403,
			reason: reasonForbidden},
		"a form": {token: token, change: header("Content-Type", "text/plain"), code: 415,
			reason: reasonInvalid},
		"a page that is a cluster's": {token: token, change: header("Referer", pageOfCluster), code: 403,
			reason: reasonForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.users[strings.Repeat("y", 12<<10)] = "ann"
			p := newPage(t, options(f.serve(t)))
			r := p.request(http.MethodPost, "/ui/api/v1/session", fmt.Sprintf(`{"token":%q}`, tc.token))
			if tc.change != nil {
				tc.change(r)
			}
			wants(t, p.do(r), tc.code, tc.reason)
			if len(p.cookies) != 0 {
				t.Error("there is a cookie")
			}
		})
	}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestSession_LongTokensNeedSeveralCookies(t *testing.T) {
	f := newFakeAPI(t)
	long := strings.Repeat("z", 6<<10)
	f.users[long] = "ann"
	p := newPage(t, options(f.serve(t)))
	if got := p.signIn(long); got.Code != http.StatusOK || len(p.cookies) != 3 {
		t.Fatalf("%d with %d cookies: %s", got.Code, len(p.cookies), got.Body)
	}
	for _, cookie := range p.cookies {
		if len(cookie.Value) > cookieSize {
			t.Errorf("cookie %s has %d bytes", cookie.Name, len(cookie.Value))
		}
	}
	if got := p.get("/ui/api/v1/session"); got.Code != http.StatusOK {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	if p.signIn(token); len(p.cookies) != 1 {
		t.Errorf("%d cookies after a sign-in with a short token", len(p.cookies))
	}
}

func TestSession_EndsWithItsToken(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		claims string
		want   time.Time
	}{
		"a token without an end":   {`{}`, now.Add(sessionLife)},
		"a token of an hour":       {`{"exp":1800003600}`, now.Add(time.Hour)},
		"a token of a year":        {`{"exp":1831536000}`, now.Add(sessionLife)},
		"a token with other words": {`{"exp":"soon"}`, now.Add(sessionLife)},
	} {
		token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(tc.claims)) + ".c2ln"
		if got := endOf(expiryOf(token), now); !got.Equal(tc.want) {
			t.Errorf("%s: ends %s, want %s", name, got, tc.want)
		}
	}
}

// A sealed session is worth nothing when it is changed, too old, of another key or under another name.
func TestSessions_OpenOnlyWhatTheySealed(t *testing.T) {
	ctx, now := t.Context(), time.Unix(1_800_000_000, 0)
	opts := options(&rest.Config{})
	s := newSessions(opts)
	sealed, err := s.seal(ctx, session{ID: "1", Token: token, Expires: now.Add(time.Minute).Unix()})
	check(t, err)
	if got, err := s.open(ctx, sealed, now); err != nil || got.Token != token {
		t.Fatalf("got %+v, %v", got, err)
	}
	other := newSessions(options(&rest.Config{}))
	renamed := *s
	renamed.name = "other"
	changed := []byte(sealed)
	changed[len(changed)/2] ^= 1
	for name, open := range map[string]func() (session, error){
		"changed":         func() (session, error) { return s.open(ctx, string(changed), now) },
		"cut":             func() (session, error) { return s.open(ctx, sealed[:20], now) },
		"empty":           func() (session, error) { return s.open(ctx, "", now) },
		"too old":         func() (session, error) { return s.open(ctx, sealed, now.Add(time.Minute)) },
		"of another key":  func() (session, error) { return other.open(ctx, sealed, now) },
		"of another name": func() (session, error) { return renamed.open(ctx, sealed, now) },
	} {
		if got, err := open(); err == nil {
			t.Errorf("%s: opened %+v", name, got)
		}
	}
}

func TestCSRF_UnsafeRequestsNeedTheProof(t *testing.T) {
	f := newFakeAPI(t)
	p := signedIn(t, f)
	own := p.csrf
	for name, proof := range map[string]string{"none": "", "another": strings.Repeat("0", len(own))} {
		r := p.request(http.MethodDelete, "/ui/api/v1/session", "")
		r.Header.Set(csrfHeader, proof)
		t.Run(name, func(t *testing.T) { wants(t, p.do(r), http.StatusForbidden, reasonForbidden) })
	}
	r := p.request(http.MethodDelete, "/ui/api/v1/session", "")
	r.Header.Set("Sec-Fetch-Site", "same-site")
	wants(t, p.do(r), http.StatusForbidden, reasonForbidden)
	bearer := p.request(http.MethodDelete, "/ui/api/v1/session", "")
	bearer.Header.Del("Cookie")
	bearer.Header.Del(csrfHeader)
	bearer.Header.Set("Authorization", "Bearer "+token)
	if got := p.do(bearer); got.Code != http.StatusNoContent {
		t.Errorf("a script with a token: %d %s", got.Code, got.Body)
	}
}

// A page of a cluster has the same host. Its requests must not use the session.
func TestSession_IsNotForOtherPages(t *testing.T) {
	p := signedIn(t, newFakeAPI(t))
	for name, change := range map[string]func(*http.Request){
		"another site":         header("Sec-Fetch-Site", "cross-site"),
		"the same site":        header("Sec-Fetch-Site", "same-site"),
		"a page in a sandbox":  header("Origin", "null"),
		"a page of a cluster":  header("Referer", "https://drover.example.com/k8s/clusters/c-m-1/"),
		"a report":             header("Sec-Fetch-Dest", "report"),
		"a service worker":     header("Service-Worker", "script"),
		"another page's frame": header("Referer", "https://other.example.com/"),
	} {
		r := p.request(http.MethodGet, "/ui/api/v1/session", "")
		change(r)
		t.Run(name, func(t *testing.T) { wants(t, p.do(r), http.StatusForbidden, reasonForbidden) })
	}
}

func TestSession_ARevokedTokenIsNoticed(t *testing.T) {
	f := newFakeAPI(t)
	p := signedIn(t, f)
	f.revoke(token)
	wants(t, p.get("/ui/api/v1/namespaces"), http.StatusUnauthorized, reasonUnauthorized)
	wants(t, p.get("/ui/api/v1/session"), http.StatusUnauthorized, reasonUnauthorized)
}

// Only the caller's token reaches the API server.
func TestCaller_UsesNothingOfTheServer(t *testing.T) {
	f := newFakeAPI(t)
	config := f.serve(t)
	config.BearerToken = "token-of-bob"
	p := newPage(t, options(config))
	p.signIn(token)
	if got := p.get("/ui/api/v1/namespaces"); got.Code != http.StatusOK {
		t.Fatalf("got %d %s", got.Code, got.Body)
	}
	for _, r := range f.seen {
		if got := r.Header.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("%s %s with %q", r.Method, r.URL, got)
		}
	}
}

func TestKey_IsOneForAllReplicas(t *testing.T) {
	f := newFakeAPI(t)
	one, two := Key(f.client(t), "drover-system"), Key(f.client(t), "drover-system")
	first, err := one(t.Context())
	check(t, err)
	if second, err := two(t.Context()); err != nil || !bytes.Equal(first, second) || len(first) != KeySize {
		t.Errorf("keys differ, or %v", err)
	}
	check(t, f.client(t).CoreV1().Secrets("drover-system").Delete(t.Context(), KeySecret, metav1.DeleteOptions{}))
	third, err := Key(f.client(t), "drover-system")(t.Context())
	if err != nil || bytes.Equal(first, third) {
		t.Errorf("a deletion of the Secret does not rotate the key (%v)", err)
	}
	short := secretObject("drover-system", KeySecret, map[string]string{keyField: "short"})
	g := newFakeAPI(t, short)
	if _, err := Key(g.client(t), "drover-system")(context.Background()); err == nil ||
		!strings.Contains(err.Error(), "delete the Secret") {
		t.Errorf("a short key: %v", err)
	}
}

// What the API server answers to Drover itself is not an answer to the caller.
func TestSession_HidesTheServersOwnProblems(t *testing.T) {
	opts := options(newFakeAPI(t).serve(t))
	key, broken := opts.Key, error(nil)
	opts.Key = func(ctx context.Context) ([]byte, error) {
		if broken != nil {
			return nil, broken
		}
		return key(ctx)
	}
	p := newPage(t, opts)
	p.signIn(token)
	broken = fmt.Errorf("read: %w", apierrors.NewUnauthorized("the token of drover has expired"))
	got := p.get("/ui/api/v1/session")
	wants(t, got, http.StatusInternalServerError, reasonInternal)
	if strings.Contains(got.Body.String(), "expired") {
		t.Errorf("got %s", got.Body)
	}
}

func TestLocalMode_NeedsItsTokenAndHost(t *testing.T) {
	f := newFakeAPI(t)
	opts := options(&rest.Config{Host: "http://memkube", Transport: f})
	opts.LocalToken, opts.Key = "local-token", nil
	p := newPage(t, opts)
	wants(t, p.signIn(token), http.StatusUnauthorized, reasonUnauthorized)
	got := decode[sessionBody](t, p.signIn("local-token"))
	if got.User != "ann" || got.Mode != "local" || got.Expires != nil {
		t.Errorf("session %+v", got)
	}
	for name, cookie := range p.cookies {
		if !strings.HasPrefix(name, "drover-ui-") || cookie.Secure || !cookie.HttpOnly {
			t.Errorf("cookie %s %+v", name, cookie)
		}
	}
	for host, want := range map[string]int{"127.0.0.1:4000": 200, "localhost:4000": 200, "[::1]:4000": 200,
		"evil.example.com": 421, "127.0.0.1.evil.example.com": 421, "localhost.evil.example.com:4000": 421,
		"10.0.0.1:4000": 421, "": 421} {
		for _, path := range []string{"/ui/api/v1/session", "/ui/"} {
			r := p.request(http.MethodGet, path, "")
			r.Host = host
			if got := p.do(r); got.Code != want {
				t.Errorf("Host %q, %s: %d, want %d", host, path, got.Code, want)
			}
		}
	}
}
