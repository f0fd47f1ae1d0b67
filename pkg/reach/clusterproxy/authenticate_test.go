package clusterproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/drover-io/drover/pkg/decide/naming"
)

func b64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestBearerToken_AsKubernetesReadsIt(t *testing.T) {
	socket := []string{"Connection: Upgrade", "Upgrade: websocket"}
	for name, test := range map[string]struct {
		headers   []string
		want      string
		presented bool
	}{
		"none":      {nil, "", false},
		"bearer":    {[]string{"Authorization: bearer abc"}, "abc", true},
		"basic":     {[]string{"Authorization: Basic abc"}, "", true},
		"empty":     {[]string{"Authorization: Bearer "}, "", true},
		"two words": {[]string{"Authorization: Bearer a b"}, "", true},
		"two headers": {[]string{"Authorization: Bearer a", "Authorization: Bearer b"}, "",
			true},
		"subprotocol": {append(socket, "Sec-Websocket-Protocol: "+bearerProtocol+b64("abc")+
			", v5.channel.k8s.io"), "abc", true},
		"subprotocol in two headers": {append(socket, "Sec-Websocket-Protocol: "+bearerProtocol+b64("abc"),
			"Sec-Websocket-Protocol: v5"), "abc", true},
		"only a token among the subprotocols": {append(socket, "Sec-Websocket-Protocol: "+bearerProtocol+b64("abc")),
			"", true},
		"two tokens": {append(socket, "Sec-Websocket-Protocol: "+bearerProtocol+b64("a")+", "+
			bearerProtocol+b64("b")+", v5"), "", true},
		"not encoded": {append(socket, "Sec-Websocket-Protocol: "+bearerProtocol+"a b!, v5"), "", true},
		"not UTF-8": {append(socket, "Sec-Websocket-Protocol: "+bearerProtocol+b64("\xff")+", v5"), "",
			true},
		"without a WebSocket": {[]string{"Sec-Websocket-Protocol: " + bearerProtocol + b64("abc") + ", v5"}, "",
			false},
		"an empty token": {append(socket, "Sec-Websocket-Protocol: v5.channel.k8s.io"), "", false},
		"Authorization comes first": {append(socket, "Authorization: Bearer x", "Sec-Websocket-Protocol: "+
			bearerProtocol+b64("abc")+", v5"), "x", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, presented, err := bearerToken(headersOf(test.headers))
			if got != test.want || presented != test.presented || (err != nil) != (presented && test.want == "") {
				t.Errorf("got %q, %v, %v", got, presented, err)
			}
			if err != nil && !errors.Is(err, errUnauthenticated) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func jwt(payload string) string { return b64(`{"alg":"none"}`) + "." + b64(payload) + ".c2ln" }

func TestAudiencesToAsk_DependOnTheKindOfToken(t *testing.T) {
	ours := []string{"drover-proxy", "other"}
	for token, want := range map[string][]string{
		jwt(`{"aud":"drover-proxy"}`):           ours,
		jwt(`{"aud":["vault","drover-proxy"]}`): ours,
		jwt(`{"aud":["vault"]}`):                nil,
		jwt(`{"aud":7}`):                        nil,
		jwt(`{}`):                               nil,
		jwt(`[`):                                nil,
		"a.%%%.b":                               nil,
		"opaque":                                nil,
	} {
		if got := audiencesToAsk(token, ours); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", token, got, want)
		}
	}
}

// A token is refused for a foreign audience and accepted for the proxy's own.
func TestTokenReviews_AudiencesMustMatch(t *testing.T) {
	w := newWorld(t)
	token := jwt(`{"aud":"drover-proxy"}`)
	w.user("jane")
	w.users[token] = w.users["token-of-jane"]
	reviews := newTokenReviews(tokenReviewer{w}, []string{DefaultAudience}, answerFor)
	caller, err := reviews.caller(t.Context(), token)
	check(t, err)
	if caller.Name != "jane" || !slices.Equal(w.reviewed[0].Audiences, []string{"drover-proxy"}) {
		t.Errorf("got %+v for a review with %q", caller, w.reviewed)
	}
	status, _ := tokenReviewer{w}.Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "token-of-jane"}},
		metav1.CreateOptions{})
	if answerOf(status.Status, []string{"drover-proxy"}).good {
		t.Error("an answer without an audience is accepted for Drover's audiences")
	}
	if !answerOf(status.Status, nil).good {
		t.Error("an answer without an audience is refused for the API server's audiences")
	}
}

func TestTokenReviews_CachesAnswersBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		token := w.user("jane")
		reviews := newTokenReviews(tokenReviewer{w}, nil, answerFor)
		who := func(token string) string {
			caller, err := reviews.caller(t.Context(), token)
			if err != nil && !errors.Is(err, errUnauthenticated) {
				return err.Error()
			}
			return caller.Name
		}
		for range 3 {
			if got := who(token); got != "jane" {
				t.Fatalf("got %q", got)
			}
		}
		delete(w.users, token)
		time.Sleep(10 * time.Second)
		if got := who(token); got != "jane" || len(w.reviewed) != 1 {
			t.Errorf("after 10s: %q and %d reviews", got, len(w.reviewed))
		}
		time.Sleep(time.Millisecond)
		if got := who(token); got != "" || len(w.reviewed) != 2 {
			t.Errorf("after more than 10s: %q and %d reviews", got, len(w.reviewed))
		}
		w.user("jane")
		time.Sleep(time.Second + time.Millisecond)
		if got := who(token); got != "jane" {
			t.Errorf("a token that became valid: %q", got)
		}
		w.broken = errors.New("no API server")
		if got := who("another"); got == "" {
			t.Error("a token that cannot be reviewed is called invalid")
		}
		w.broken = nil
		if got := who("another"); got != "" || len(w.reviewed) != 5 {
			t.Errorf("an error was remembered: %q, %d reviews", got, len(w.reviewed))
		}
	})
}

func TestAuthenticate_RefusesAnonymousCallers(t *testing.T) {
	for name, test := range map[string]struct {
		users   func(*world)
		headers []string
	}{
		"without a credential":  {},
		"with an unknown token": {headers: []string{"Authorization: Bearer who"}},
		"with a long token": {headers: []string{"Authorization: Bearer " +
			strings.Repeat("x", longestToken+1)}},
		"with an unknown token of Drover": {headers: []string{"Authorization: Bearer drover-token-x"}},
		"with another scheme":             {headers: []string{"Authorization: Basic dG9rZW4tb2YtamFuZTo="}},
		"with a name":                     {headers: []string{"X-Remote-User: jane", "Impersonate-User: jane"}},
		"as anonymous": {func(w *world) { w.user("system:anonymous") },
			[]string{"Authorization: Bearer token-of-system:anonymous"}},
		"without a name": {func(w *world) { w.user("") }, []string{"Authorization: Bearer token-of-"}},
		"as unauthenticated": {func(w *world) {
			u := w.users["token-of-jane"]
			u.Groups = []string{"system:unauthenticated"}
			w.users["token-of-jane"] = u
		}, []string{"Authorization: Bearer token-of-jane"}},
		"with a subprotocol": {headers: []string{"Connection: Upgrade", "Upgrade: websocket",
			"Sec-Websocket-Protocol: " + bearerProtocol + b64("who") + ", v5"}},
		"with the cookie":             {headers: []string{"Cookie: R_SESS=token-of-jane"}},
		"with the proxy's own header": {headers: []string{"Proxy-Authorization: Bearer token-of-jane"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := newCarrier(t)
			if test.users != nil {
				test.users(w)
			}
			r := httptest.NewRequest(http.MethodGet, "/k8s/clusters/c-m-a/version", nil)
			r.Header = headersOf(test.headers)
			sent, answer := carried(w, p, r)
			if sent != nil || answer.Code != http.StatusUnauthorized ||
				answer.Header().Get("WWW-Authenticate") != `Bearer realm="drover"` {
				t.Errorf("answer %d %v, forwarded %v", answer.Code, answer.Header(), sent != nil)
			}
		})
	}
}

func TestAuthenticate_DroversTokensAreNotReviewed(t *testing.T) {
	w := newWorld(t)
	w.cluster("demo", whoami("demo"))
	w.cluster("other", whoami("other"))
	grant := Grant{Cluster: "c-m-demo", Principal: naming.ProvisioningPrincipal("fleet-default", "demo"),
		Expires: time.Now().Add(time.Hour)}
	secret, bearer, err := Issue("drover-system", grant, rand.Reader)
	check(t, err)
	w.secrets = append(w.secrets, secret)
	server := w.proxy()
	got := sees(t, server, http.MethodGet, "/k8s/clusters/c-m-demo/version", bearer)
	if user := got.Header["Impersonate-User"]; !slices.Equal(user, []string{"system:provisioning:fleet-default:demo"}) {
		t.Errorf("the cluster sees user %q", user)
	}
	if groups := got.Header["Impersonate-Group"]; !slices.Equal(groups,
		[]string{"system:drover:cluster-admin", "system:authenticated"}) {
		t.Errorf("the cluster sees groups %q", groups)
	}
	answer, _ := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-other/version", bearer)
	missing, _ := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-missing/version", bearer)
	if answer.StatusCode != http.StatusForbidden || missing.StatusCode != http.StatusForbidden {
		t.Errorf("requests to other clusters are answered with %d and %d", answer.StatusCode, missing.StatusCode)
	}
	if len(w.reviewed) > 0 || len(w.asked) > 0 {
		t.Errorf("the management cluster got reviews: %v %v", w.reviewed, w.asked)
	}
}

// authority issues client certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) (*authority, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	certificate, err := x509.ParseCertificate(encoded)
	check(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return &authority{certificate, key}, pool
}

func (a *authority) issue(t *testing.T, subject pkix.Name, until time.Time, usage x509.ExtKeyUsage) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	encoded, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: subject, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, a.certificate, key.Public(), a.key)
	check(t, err)
	certificate, err := x509.ParseCertificate(encoded)
	check(t, err)
	return certificate
}

func TestAuthenticate_ClientCertificates(t *testing.T) {
	ours, pool := newAuthority(t)
	theirs, _ := newAuthority(t)
	jane := pkix.Name{CommonName: "jane", Organization: []string{"developers"}}
	later := time.Now().Add(time.Hour)
	good := ours.issue(t, jane, later, x509.ExtKeyUsageClientAuth)
	for name, test := range map[string]struct {
		certificate *x509.Certificate
		pool        *x509.CertPool
		headers     []string
		want        string
	}{
		"good": {good, pool, nil, "jane | | developers, system:authenticated |"},
		"from the same site": {good, pool, []string{"Origin: https://drover.example"},
			"jane | | developers, system:authenticated |"},
		"from the address bar": {good, pool, []string{"Sec-Fetch-Site: none"},
			"jane | | developers, system:authenticated |"},
		"no authority yet":       {good, nil, nil, ""},
		"from another authority": {theirs.issue(t, jane, later, x509.ExtKeyUsageClientAuth), pool, nil, ""},
		"expired": {ours.issue(t, jane, time.Now().Add(-time.Minute), x509.ExtKeyUsageClientAuth),
			pool, nil, ""},
		"of a server": {ours.issue(t, jane, later, x509.ExtKeyUsageServerAuth), pool, nil, ""},
		"without a name": {ours.issue(t, pkix.Name{Organization: []string{"developers"}}, later,
			x509.ExtKeyUsageClientAuth), pool, nil, ""},
		"with an invalid token":      {good, pool, []string{"Authorization: Bearer who"}, ""},
		"from another site":          {good, pool, []string{"Origin: https://evil.example"}, ""},
		"from a site without a name": {good, pool, []string{"Origin: null"}, ""},
		"fetched by another site":    {good, pool, []string{"Sec-Fetch-Site: cross-site"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := &authenticator{clientCA: func() *x509.CertPool { return test.pool }, tokens: w, lookup: w.lookup,
				reviews: newTokenReviews(tokenReviewer{w}, nil, answerFor)}
			r := httptest.NewRequest(http.MethodGet, "https://drover.example/k8s/clusters/c-m-a/", nil)
			r.Header, r.TLS = headersOf(test.headers),
				&tls.ConnectionState{PeerCertificates: []*x509.Certificate{test.certificate}}
			caller, err := a.authenticate(r)
			if (err != nil) != (test.want == "") || err != nil && !errors.Is(err, errUnauthenticated) {
				t.Fatalf("got %+v, %v", caller, err)
			}
			if got := strings.TrimSpace(text(caller.Identity)); err == nil && got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// hostUsers is a host that identifies users by a header.
type hostUsers struct{ err error }

func (h hostUsers) Authenticate(r *http.Request) (user.Info, bool, error) {
	name := r.Header.Get("X-Host-User")
	return &user.DefaultInfo{Name: name, UID: "7", Groups: []string{"hosted"},
		Extra: map[string][]string{"tenant": {"x"}}}, name != "", h.err
}

func TestAuthenticate_TheEmbeddingProgramReplacesIt(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.rules["joe get clusters fleet-default/a"] = true
	w.cluster("a", whoami("a"))
	w.options.Authenticator = hostUsers{}
	server := w.proxy()
	if answer, _ := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/version",
		token); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("a token that the embedding program does not know is answered with %d", answer.StatusCode)
	}
	got := sees(t, server, http.MethodGet, "/k8s/clusters/c-m-a/version", "", "X-Host-User: joe")
	if name, uid, extra := got.Header.Get("Impersonate-User"), got.Header.Get("Impersonate-Uid"),
		got.Header.Get("Impersonate-Extra-Tenant"); name != "joe" || uid != "7" || extra != "x" {
		t.Errorf("the cluster sees %v", got.Header)
	}
	w.options.Authenticator = hostUsers{errors.New("internal text")}
	answer, body := ask(t, w.proxy(), http.MethodGet, "/k8s/clusters/c-m-a/version", "", "X-Host-User: joe")
	if answer.StatusCode != http.StatusServiceUnavailable || strings.Contains(body, "internal text") {
		t.Errorf("an error of the embedding program is answered with %d: %s", answer.StatusCode, body)
	}
}
