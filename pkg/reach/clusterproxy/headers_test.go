package clusterproxy

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// carried sends a request through a proxy and returns the request that a cluster would receive, or nil.
func carried(w *world, p *Proxy, r *http.Request) (sent *http.Request, answer *httptest.ResponseRecorder) {
	keep := roundTripper(func(r *http.Request) (*http.Response, error) {
		sent = r
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})
	w.mu.Lock()
	for id := range w.clusters {
		w.backends[id] = keep
	}
	w.mu.Unlock()
	answer = httptest.NewRecorder()
	p.ServeHTTP(answer, r)
	return sent, answer
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newCarrier returns a world of two clusters. jane may reach one, root both. root may impersonate everything.
func newCarrier(t *testing.T) (*world, *Proxy) {
	t.Helper()
	w := newWorld(t)
	w.user("jane", "a")
	w.user("root", "a", "b")
	for _, resource := range []string{"users", "groups", "serviceaccounts", "uids"} {
		w.rules["root impersonate "+resource+" /*"] = true
	}
	w.cluster("a", nil)
	w.cluster("b", nil)
	w.options.Audit = func(Record) {}
	p, err := New(w.options)
	check(t, err)
	return w, p
}

func TestHeaders_OnlyDecidedHeadersReachTheCluster(t *testing.T) {
	w, p := newCarrier(t)
	r := httptest.NewRequest(http.MethodPost, "/k8s/clusters/c-m-a/api/v1/namespaces/x/pods/y/exec", nil)
	r.Header = http.Header{
		"Authorization": {"Bearer token-of-jane"}, "Cookie": {"session=1"}, "Proxy-Authorization": {"Basic eA=="},
		"X-Remote-User": {"admin"}, "X_Remote_Group": {"system:masters"},
		"X-Remote-Extra-A": {"b"}, "X-Forwarded-For": {"10.0.0.1"}, "X-Forwarded-Uri": {"/"}, "Forwarded": {"for=1"},
		"Via": {"x"}, "Impersonate_user": {"admin"},
		"Connection": {"Upgrade, Impersonate-User", "impersonate-group, keep-alive, X-Mine"}, "Upgrade": {"SPDY/3.1"},
		"Te": {"trailers"}, "Trailer": {"Impersonate-User"},
		"Keep-Alive": {"1"}, "Transfer-Encoding": {"chunked"}, "Http2-Settings": {"x"}, "Expect": {"100-continue"},
		"X-Api-Tunnel-Token": {"t"},
		"X-Mine":             {"1"}, "Accept": {"application/json", "*/*"}, "User-Agent": {"kubectl"},
		"X-Stream-Protocol-Version": {"v4.channel.k8s.io"}, "Audit-Id": {"of-the-client"},
	}
	r.Trailer = http.Header{"Impersonate-User": {"admin"}}
	sent, answer := carried(w, p, r)
	if sent == nil {
		t.Fatalf("refused: %d %s", answer.Code, answer.Body)
	}
	want := http.Header{
		"Impersonate-User": {"jane"}, "Impersonate-Group": {"system:authenticated"}, "Connection": {"Upgrade"},
		"Upgrade": {"SPDY/3.1"},
		"X-Mine":  {"1"}, "Accept": {"application/json", "*/*"}, "User-Agent": {"kubectl"},
		"X-Stream-Protocol-Version": {"v4.channel.k8s.io"}, "Audit-Id": {"of-the-client"},
	}
	if diff := cmp.Diff(want, sent.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if len(sent.Trailer) > 0 {
		t.Errorf("trailers reach the cluster: %v", sent.Trailer)
	}
	if sent.Host != "c-m-a" || sent.URL.Host != "c-m-a" {
		t.Errorf("the transport would replace host %q of %s", sent.Host, sent.URL)
	}
}

func TestUpgradeOf_AcceptsOnlyProtocolsOfKubernetes(t *testing.T) {
	for name, test := range map[string]struct {
		connection, upgrade []string
		want                string
	}{
		"websocket":                    {[]string{"keep-alive, Upgrade"}, []string{"WebSocket"}, "WebSocket"},
		"spdy":                         {[]string{"upgrade"}, []string{"SPDY/3.1"}, "SPDY/3.1"},
		"http/2 without tls":           {[]string{"Upgrade, HTTP2-Settings"}, []string{"h2c"}, ""},
		"several":                      {[]string{"Upgrade"}, []string{"websocket, h2c"}, ""},
		"several headers":              {[]string{"Upgrade"}, []string{"websocket", "h2c"}, ""},
		"headers of other connections": {[]string{"keep-alive"}, []string{"websocket"}, ""},
		"nothing":                      {nil, nil, ""},
		"an empty Connection header":   {[]string{"Upgrade"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := upgradeOf(http.Header{"Connection": test.connection, "Upgrade": test.upgrade}); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestHeaders_SubprotocolTokensAreRemoved(t *testing.T) {
	in := http.Header{"Sec-Websocket-Protocol": {"v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0",
		"v4.channel.k8s.io"}}
	out := outboundHeaders(in, Identity{Name: "jane"}, "", "id")
	if got, want := out["Sec-Websocket-Protocol"], []string{"v5.channel.k8s.io, v4.channel.k8s.io"}; !slices.Equal(got,
		want) {
		t.Errorf("got %q, want %q", got, want)
	}
	in = http.Header{"Sec-Websocket-Protocol": {"base64url.bearer.authorization.k8s.io.c2VjcmV0"}}
	if got := outboundHeaders(in, Identity{Name: "jane"}, "", "id")["Sec-Websocket-Protocol"]; got != nil {
		t.Errorf("got %q, want none", got)
	}
}

func TestCleanAnswer_RemovesHeadersForThisServer(t *testing.T) {
	header := http.Header{
		"Set-Cookie": {"a=b"}, "Www-Authenticate": {"Basic"}, "Alt-Svc": {`h3="evil:443"`}, "Clear-Site-Data": {`"*"`},
		"Strict-Transport-Security": {"max-age=1"}, "Refresh": {"0"},
		"Location": {"/login"}, "Content-Type": {"text/html"}, "Warning": {"299 - x"},
		"X-Kubernetes-Pf-Flowschema-Uid": {"1"},
	}
	cleanAnswer(header, target{Cluster: "c-m-a", Prefix: "/k8s/clusters/c-m-a", Rest: "/x"}, nil)
	want := http.Header{
		"Location": {"/k8s/clusters/c-m-a/login"}, "Content-Type": {"text/html"}, "Warning": {"299 - x"},
		"X-Kubernetes-Pf-Flowschema-Uid": {"1"},
		"Content-Security-Policy":        {"sandbox"}, "X-Content-Type-Options": {"nosniff"},
	}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestRelocate_KeepsThePrefix(t *testing.T) {
	at := target{Cluster: "c-m-a", Prefix: "/k8s/clusters/c-m-a", Rest: "/api/v1/namespaces/x/services/y/proxy/app"}
	for location, want := range map[string]string{
		"/login?next=%2F#top":              "/k8s/clusters/c-m-a/login?next=%2F#top",
		"/a%2fb/":                          "/k8s/clusters/c-m-a/a%2fb/",
		"next":                             "/k8s/clusters/c-m-a/api/v1/namespaces/x/services/y/proxy/next",
		"../../../../../../../../../../up": "/k8s/clusters/c-m-a/up",
		"/../../other":                     "/k8s/clusters/c-m-a/other",
		"?again":                           "/k8s/clusters/c-m-a/api/v1/namespaces/x/services/y/proxy/app?again",
		"https://10.43.0.1/version":        "/k8s/clusters/c-m-a/version",
		"https://DROVER.example/version":   "/k8s/clusters/c-m-a/version",
		"//10.43.0.1/version":              "/k8s/clusters/c-m-a/version",
		"https://sso.example.com/login":    "",
		"http://sso.example.com/login":     "",
		"//sso.example.com/login":          "",
		`\\sso.example.com\login`:          "/k8s/clusters/c-m-a/api/v1/namespaces/x/services/y/proxy/%5C%5Csso.example.com%5Clogin",
		"/%2e%2e/other":                    "",
		"/.%2E/other":                      "",
		`/a/..\..\elsewhere`:               "",
		"javascript:alert(1)":              "",
		"javascript://sso.example.com/%0a": "",
		"https://u:p@10.43.0.1/":           "",
		"https:///x":                       "",
		"%zz":                              "",
	} {
		got, ok := relocate(location, at, []string{"c-m-a", "10.43.0.1", "drover.example"})
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q (%v), want %q", location, got, ok, want)
		}
	}
}

// FuzzHeaders: for any incoming headers, the cluster sees exactly the decided identity and no other header about
// identity.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{
		"Impersonate-User: admin", "Impersonate-User: admin\nImpersonate-Group: system:masters",
		"Connection: Impersonate-User, Upgrade\nUpgrade: websocket",
		"Impersonate-Extra-A%2fB: x\nImpersonate-User: system:serviceaccount:a:b",
		"impersonate-uid: 1\nIMPERSONATE-USER: joe", "X-Remote-User: a\nTe: trailers\nCookie: a",
		"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YQ, b",
		"Impersonate-User: joe\nImpersonate-Group:  system:drover:cluster-admin", "Impersonate_User: x\nVia: y",
		"impersonate-user:\nImpersonate-User: root", "Connection: close\nUpgrade: h2c\nHTTP2-Settings: x",
		"Transfer-Encoding: chunked\nTrailer: Impersonate-User",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, lines string, asRoot bool) {
		w, p := newCarrier(t)
		r := httptest.NewRequest(http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods", nil)
		for line := range strings.SplitSeq(lines, "\n") {
			name, value, _ := strings.Cut(line, ":")
			if value = strings.Trim(value, " \t"); name != "" && !strings.ContainsAny(value, "\r\x00") {
				r.Header.Add(name, value)
			}
		}
		in := r.Header.Clone()
		user := "jane"
		if asRoot {
			user = "root"
		}
		r.Header["Authorization"] = []string{"Bearer token-of-" + user}
		sent, answer := carried(w, p, r)
		if sent == nil {
			if answer.Code < 400 {
				t.Fatalf("the request was not forwarded, and the answer is %d", answer.Code)
			}
			return
		}
		decided, no := decide(Caller{Identity: Identity{Name: user, Groups: []string{"system:authenticated"}}}, in,
			false)
		if no != nil {
			t.Fatalf("forwarded although refused: %q", no.message)
		}
		if decided.Asked != nil && user != "root" {
			t.Fatalf("jane became %+v", decided.As)
		}
		checkSent(t, sent, decided)
	})
}

// checkSent compares the identity in a request's headers with the decided one. It shares no code with the code under
// test.
func checkSent(t *testing.T, sent *http.Request, decided decision) {
	t.Helper()
	got := Identity{}
	for name, values := range sent.Header {
		lower := strings.ReplaceAll(strings.ToLower(name), "_", "-")
		evil := slices.Contains([]string{"authorization", "cookie", "forwarded", "te", "trailer", "transfer-encoding",
			"keep-alive", "via"}, lower)
		for _, prefix := range []string{"x-remote-", "x-forwarded-", "proxy-"} { // X-Remote alone identifies no user
			evil = evil || strings.HasPrefix(lower, prefix)
		}
		if evil {
			t.Errorf("header %q reaches the cluster", name)
		}
		for protocol := range strings.SplitSeq(strings.Join(values, ","), ",") {
			if lower == "sec-websocket-protocol" && strings.HasPrefix(strings.TrimSpace(protocol),
				"base64url.bearer.authorization.k8s.io.") {
				t.Errorf("a token reaches the cluster: %q", values)
			}
		}
		if !strings.HasPrefix(lower, "impersonate-") {
			continue
		}
		if lower == "impersonate-user" && len(values) != 1 {
			t.Errorf("users %q reach the cluster", values)
		}
		asked, no := askedIdentity(http.Header{name: values, "Impersonate-User": sent.Header["Impersonate-User"]})
		if no != nil || asked == nil {
			t.Fatalf("header %q: %q is unreadable: %v", name, values, no)
		}
		got.Name = asked.Name
		got.UID += asked.UID
		got.Groups = append(got.Groups, asked.Groups...)
		for key, value := range asked.Extra {
			got.addExtra(encodeKey(key), value)
		}
	}
	if diff := cmp.Diff(text(decided.As), text(got)); diff != "" || got.Name == "" {
		t.Errorf("identity (-decided +sent):\n%s", diff)
	}
	for _, group := range got.Groups {
		if strings.HasPrefix(group, "system:") && !harmless(group, decided.Asked != nil) {
			t.Errorf("group %q reaches the cluster", group)
		}
	}
	if connection := sent.Header["Connection"]; connection != nil &&
		(len(connection) != 1 || connection[0] != "Upgrade") {
		t.Errorf("connection %q", connection)
	}
}
