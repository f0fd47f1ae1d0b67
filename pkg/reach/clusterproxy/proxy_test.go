package clusterproxy

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestProxy_TheClusterSeesTheOriginalRequest(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a", "b")
	w.cluster("a", whoami("a"))
	w.cluster("b", whoami("b"))
	server := w.proxy()
	for target, want := range map[string][2]string{
		"/k8s/clusters/c-m-a/api/v1/pods?limit=500&x=%zz;y": {"a", "/api/v1/pods?limit=500&x=%zz;y"},
		"/k8s/clusters/c-m-b":                               {"b", "/"},
		"/k8s/clusters/c-m-b?":                              {"b", "/?"},
		"/k8s/proxy/c-m-b/version":                          {"b", "/version"},
		"/k8s/clusters/c-m-a//api/../c-m-b/%2e%2e/x%2fy":    {"a", "//api/../c-m-b/%2e%2e/x%2fy"},
	} {
		got := sees(t, server, http.MethodGet, target, token)
		if got.Cluster != want[0] || got.Target != want[1] {
			t.Errorf("%s: cluster %s sees %s, want %s and %s", target, got.Cluster, got.Target, want[0], want[1])
		}
		if user := got.Header["Impersonate-User"]; !slices.Equal(user, []string{"jane"}) ||
			got.Header.Get("Authorization") != "Bearer the-agents" {
			t.Errorf("%s: the cluster sees %v", target, got.Header)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodPost,
		http.MethodOptions} {
		if got := sees(t, server, method, "/k8s/clusters/c-m-a/api/v1/pods", token); got.Method != method {
			t.Errorf("the cluster sees %s instead of %s", got.Method, method)
		}
	}
	for _, record := range w.ended(server, 10) {
		if record.Status != http.StatusOK || record.User != "jane" || record.Downstream != "jane" {
			t.Errorf("audit has %+v", record)
		}
	}
}

// statusOf decodes an answer of Drover and checks its common properties.
func statusOf(t *testing.T, answer reply, body string) metav1.Status {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil || status.Kind != "Status" ||
		status.APIVersion != "v1" || status.Status != metav1.StatusFailure {
		t.Errorf("the answer is not a Status: %s", body)
	}
	if int(status.Code) != answer.StatusCode || answer.Header.Get("Content-Type") != "application/json" ||
		answer.Header.Get("Audit-Id") == "" {
		t.Errorf("answer %d, code %d, headers %v", answer.StatusCode, status.Code, answer.Header)
	}
	return status
}

func TestProxy_Refusals(t *testing.T) {
	w := newWorld(t)
	jane, root := w.user("jane", "a", "lonely"), w.user("root")
	w.rules["root get clusters /c-m-missing"] = true
	w.rules["jane impersonate users /joe"] = true
	w.cluster("a", whoami("a"))
	w.cluster("lonely", nil)
	w.cluster("secret", whoami("secret"))
	server := w.proxy()
	for name, test := range map[string]struct {
		method, target, token string
		headers               []string
		code                  int
		message               string
		retryAfter            string
	}{
		"nobody": {"GET", "/k8s/clusters/c-m-a/version", "", nil, 401, "Unauthorized", ""},
		"no access": {"GET", "/k8s/clusters/c-m-secret/version", jane, nil, 403,
			`user "jane" may not access cluster "c-m-secret"`, ""},
		"no cluster, no access": {"GET", "/k8s/clusters/c-m-missing/version", jane, nil, 403,
			`user "jane" may not access cluster "c-m-missing"`, ""},
		"no cluster": {"GET", "/k8s/clusters/c-m-missing/version", root, nil, 404,
			`cluster "c-m-missing" not found`, ""},
		"not connected": {"POST", "/k8s/clusters/c-m-lonely/api/v1/pods", jane, nil, 503,
			`cluster "c-m-lonely" is not connected: its agent must connect to this server first`, "5"},
		"impersonates a group": {"GET", "/k8s/clusters/c-m-a/", jane,
			[]string{"Impersonate-User: joe", "Impersonate-Group: g"}, 403,
			`user "jane" may not impersonate groups "g"`, ""},
		"impersonates a user": {"GET", "/k8s/clusters/c-m-a/", jane, []string{"Impersonate-User: root"}, 403,
			`user "jane" may not impersonate users "root"`, ""},
		"an account": {"GET", "/k8s/clusters/c-m-a/", jane,
			[]string{"Impersonate-User: system:serviceaccount:a:b"}, 403,
			`user "jane" may not impersonate serviceaccounts "a/b"`, ""},
		"only groups": {"GET", "/k8s/clusters/c-m-a/", jane, []string{"Impersonate-Group: g"}, 400,
			"impersonation of groups, a UID or extras needs a user: set Impersonate-User", ""},
		"another path": {"GET", "/k8s/clusters/%2e%2e/", jane, nil, 404, "the path contains no cluster", ""},
		"elsewhere":    {"GET", "/version", jane, nil, 404, "the path contains no cluster", ""},
		"method TRACE": {"TRACE", "/k8s/clusters/c-m-a/", jane, nil, 405, "this method is not allowed", ""},
		"impersonates, no access": {"GET", "/k8s/clusters/c-m-secret/", jane, []string{"Impersonate-User: joe"}, 403,
			`user "jane" may not access cluster "c-m-secret"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer, body := ask(t, server, test.method, test.target, test.token, test.headers...)
			status := statusOf(t, answer, body)
			if answer.StatusCode != test.code || status.Message != test.message ||
				answer.Header.Get("Retry-After") != test.retryAfter {
				t.Errorf("got %d %q, Retry-After %q", answer.StatusCode, status.Message,
					answer.Header.Get("Retry-After"))
			}
		})
	}
}

// Callers without access get identical bytes, after the same number of reviews, for existing and missing clusters.
func TestProxy_RefusalsDoNotRevealClusters(t *testing.T) {
	answers := map[bool]string{}
	for _, exists := range []bool{true, false} {
		w := newWorld(t)
		token := w.user("jane")
		if exists {
			w.cluster("x", whoami("x"))
		}
		answer, body := ask(t, w.proxy(), http.MethodGet, "/k8s/clusters/c-m-x/version", token, "Audit-Id: same")
		answer.Header.Del("Date")
		var headers strings.Builder
		check(t, answer.Header.Write(&headers))
		answers[exists] = strconv.Itoa(answer.StatusCode) + "\n" + headers.String() + body
		if len(w.asked) != 1 || len(w.reviewed) != 1 {
			t.Errorf("exists %v: asked %q", exists, w.asked)
		}
	}
	if diff := cmp.Diff(answers[true], answers[false]); diff != "" {
		t.Errorf("a cluster that exists (-) and one that does not (+):\n%s", diff)
	}
}

func TestProxy_AllowedImpersonation(t *testing.T) {
	w := newWorld(t)
	jane := w.user("jane", "a")
	w.rules["jane impersonate users /joe"] = true
	w.rules["jane impersonate groups /testers"] = true
	w.rules["jane impersonate userextras/example.com/scope /read"] = true
	w.cluster("a", whoami("a"))
	server := w.proxy()
	got := sees(t, server, http.MethodGet, "/k8s/clusters/c-m-a/version", jane,
		"Impersonate-User: joe", "Impersonate-Group: testers", "Impersonate-Extra-Example.com%2fScope: read")
	want := map[string][]string{
		"Impersonate-User": {"joe"}, "Impersonate-Group": {"testers", "system:authenticated"},
		"Impersonate-Extra-Example.com%2fscope": {"read"},
	}
	for name, values := range want {
		if diff := cmp.Diff(values, got.Header[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if record := w.ended(server, 1)[0]; record.User != "jane" || record.Impersonated != "joe" ||
		record.Downstream != "joe" {
		t.Errorf("audit has %+v", record)
	}
}

func TestProxy_FailedReviewsAnswer503(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", whoami("a"))
	w.broken = errors.New("internal text")
	answer, body := ask(t, w.proxy(), http.MethodGet, "/k8s/clusters/c-m-a/version", token)
	if status := statusOf(t, answer, body); answer.StatusCode != 503 || strings.Contains(status.Message, "internal") ||
		answer.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %q", answer.StatusCode, status.Message)
	}
}

func TestAuthorizer_CachesAnswersBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.user("jane", "a")
		w.cluster("a", nil)
		options, err := w.options.complete()
		check(t, err)
		a := newAuthorizer(options)
		may := func() bool { return a.access(t.Context(), jane, "c-m-a") == nil }
		twice := func(want bool) bool { first, second := may(), may(); return first == want && second == want }
		if !twice(true) || len(w.asked) != 1 {
			t.Fatalf("asked %q", w.asked)
		}
		delete(w.rules, "jane get clusters fleet-default/a")
		time.Sleep(10*time.Second + time.Millisecond)
		if !twice(false) || len(w.asked) != 2 {
			t.Fatalf("asked %q", w.asked)
		}
		w.rules["jane get clusters fleet-default/a"] = true
		time.Sleep(10*time.Second + time.Millisecond)
		if !may() {
			t.Error("an allowed request is refused")
		}
		// Other groups require another review.
		if other := with(jane, func(c *Caller) {
			c.Groups = nil
		}); a.access(t.Context(), other, "c-m-a") != nil || len(w.asked) != 4 {
			t.Errorf("asked %q", w.asked)
		}
	})
}

func TestProxy_AnswersOfTheCluster(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("WWW-Authenticate", "Basic")
		switch {
		case strings.HasSuffix(r.URL.Path, "/proxy/login"), strings.HasSuffix(r.URL.Path, "/secrets"):
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/proxy"):
			http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently)
		case strings.HasSuffix(r.URL.Path, "/odd"):
			conn, _, err := http.NewResponseController(w).Hijack()
			check(t, err)
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 099 Odd\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody")
		case strings.HasSuffix(r.URL.Path, "/early"):
			w.Header().Set("Link", "</x>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNoContent)
		default:
			w.Header().Set("Audit-Id", "of-the-cluster")
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	server := w.proxy()
	service := "/k8s/clusters/c-m-a/api/v1/namespaces/x/services/y/proxy"
	answer, body := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/secrets", token)
	if status := statusOf(t, answer, body); answer.StatusCode != 503 ||
		!strings.Contains(status.Message, "credential of its own agent") {
		t.Errorf("a credential that is refused: %d %q", answer.StatusCode, status.Message)
	}
	answer, _ = ask(t, server, http.MethodGet, service+"/login", token)
	if answer.StatusCode != 401 || answer.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("a program in the cluster that asks for credentials: %d %v", answer.StatusCode, answer.Header)
	}
	answer, _ = ask(t, server, http.MethodGet, service, token)
	if got := answer.Header.Get("Location"); answer.StatusCode != 301 || got != service+"/" {
		t.Errorf("a redirect leads to %q", got)
	}
	answer, _ = ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/early", token)
	if answer.StatusCode != 204 {
		t.Errorf("an answer after early hints: %d", answer.StatusCode)
	}
	answer, body = ask(t, server, http.MethodPost, "/k8s/clusters/c-m-a/odd", token)
	if status := statusOf(t, answer, body); answer.StatusCode != 503 || status.Reason != "ServiceUnavailable" {
		t.Errorf("an answer with an invalid status: %d %q", answer.StatusCode, body)
	}
	answer, _ = ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/x", token, "Audit-Id: mine")
	if answer.StatusCode != 418 || !slices.Equal(answer.Header["Audit-Id"], []string{"of-the-cluster"}) ||
		answer.Header.Get("Set-Cookie") != "" {
		t.Errorf("an answer: %d %v", answer.StatusCode, answer.Header)
	}
}

func TestProxy_PanicsRevealNothing(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", nil)
	log, hook := logtest.NewNullLogger()
	w.options.Log = log
	w.options.Transport = func(string) (http.RoundTripper, error) { panic("internal text") }
	answer, body := ask(t, w.proxy(), http.MethodGet, "/k8s/clusters/c-m-a/x", token)
	if status := statusOf(t, answer, body); answer.StatusCode != 500 || status.Message != "this server failed" {
		t.Errorf("got %d %q", answer.StatusCode, status.Message)
	}
	if entry := hook.LastEntry(); entry == nil || entry.Level != logrus.ErrorLevel {
		t.Errorf("the log has %+v", entry)
	}
}

func TestLogRecords_NoTokensAndNoQueries(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", whoami("a"))
	log, hook := logtest.NewNullLogger()
	w.options.Audit, w.options.Log = nil, log
	server := w.proxy()
	sees(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/namespaces/x/pods/y/log?token=from-the-query", token,
		"X-Token: from-a-header", "Audit-Id: not an id!")
	server.Close()
	entries := hook.AllEntries()
	if len(entries) != 2 || entries[0].Data["stage"] != "started" || entries[1].Data["stage"] != "ended" {
		t.Fatalf("got %+v", entries)
	}
	for _, entry := range entries {
		line, err := entry.String()
		check(t, err)
		for _, secret := range []string{"token-of-jane", "from-the-query", "from-a-header", "the-agents", "not an id"} {
			if strings.Contains(line, secret) {
				t.Errorf("%q is in %s", secret, line)
			}
		}
		for field, want := range map[string]any{"user": "jane", "clusterID": "c-m-a", "verb": "get",
			"path": "/api/v1/namespaces/x/pods/y/log", "downstreamUser": "jane", "longRunning": true} {
			if entry.Data[field] != want {
				t.Errorf("%s is %v, want %v", field, entry.Data[field], want)
			}
		}
	}
}

func TestProxy_Metrics(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", whoami("a"))
	registry := prometheus.NewRegistry()
	w.options.Registerer = registry
	server := w.proxy()
	sees(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods", token)
	sees(t, server, "BREW", "/k8s/clusters/c-m-a/pot", token)
	ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/api/v1/pods/x", "who")
	w.ended(server, 3)
	families, err := registry.Gather()
	check(t, err)
	var got strings.Builder
	for _, family := range families {
		if !strings.Contains(family.GetName(), "duration") {
			_, err := expfmt.MetricFamilyToText(&got, family)
			check(t, err)
		}
	}
	want := `# HELP drover_proxy_requests_in_flight Requests to clusters in flight. Long-running requests, which have no time limit, count separately.
# TYPE drover_proxy_requests_in_flight gauge
drover_proxy_requests_in_flight{long_running="false"} 0
# HELP drover_proxy_requests_total Requests to clusters below /k8s/clusters/, by verb of Kubernetes and class of the response code.
# TYPE drover_proxy_requests_total counter
drover_proxy_requests_total{code="2xx",verb="list"} 1
drover_proxy_requests_total{code="2xx",verb="other"} 1
drover_proxy_requests_total{code="4xx",verb="get"} 1
# HELP drover_proxy_requests_waiting Requests to clusters that wait for a slot. They also count as in flight.
# TYPE drover_proxy_requests_waiting gauge
drover_proxy_requests_waiting 0
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestLimiter_LimitsCallersClustersAndNamespaces(t *testing.T) {
	l := newLimiter(shares{namespace: 4, cluster: 3, caller: 2})
	enter := func(cluster, caller string) func() {
		leave, no := l.enter(visitor{"team", cluster, caller})
		if no != nil && (no.code != http.StatusTooManyRequests || no.retryAfter == 0) {
			t.Errorf("refused with %+v", no)
		}
		return leave
	}
	first, second := enter("a", "jane"), enter("a", "jane")
	if first == nil || second == nil || enter("a", "jane") != nil {
		t.Error("a caller has two slots")
	}
	if third := enter("a", "joe"); third == nil || enter("a", "root") != nil {
		t.Error("a cluster has three slots")
	}
	if enter("b", "jane") == nil || enter("b", "jane") != nil {
		t.Error("a namespace has four slots")
	}
	if leave, no := l.enter(visitor{"others", "c", "jane"}); no != nil {
		t.Error("another namespace has no slots")
	} else {
		leave()
	}
	first()
	first() // a second call frees no further slot
	if enter("a", "root") == nil || enter("a", "jane") != nil {
		t.Error("a free slot must be taken exactly once")
	}
	if len(l.held) != 1+1+2+4 {
		t.Errorf("finished callers are remembered: %v", l.held)
	}
	free := newLimiter(shares{unlimited, unlimited, unlimited})
	for range 1000 {
		if _, no := free.enter(visitor{caller: "jane"}); no != nil {
			t.Fatal("there is a limit")
		}
	}
}

func TestOptions_NameTheInvalidField(t *testing.T) {
	for field, change := range map[string]func(*Options){
		"Transport must":                 func(o *Options) { o.Transport = nil },
		"NotConnected must":              func(o *Options) { o.NotConnected = nil },
		"Lookup must":                    func(o *Options) { o.Lookup = nil },
		"Log must":                       func(o *Options) { o.Log = nil },
		"AccessReviews or":               func(o *Options) { o.AccessReviews = nil },
		"no caller can be authenticated": func(o *Options) { o.Tokens, o.TokenReviews, o.ClientCA = nil, nil, nil },
		"TokenNamespace must":            func(o *Options) { o.TokenNamespace = "" },
		"RequestTimeout must":            func(o *Options) { o.RequestTimeout = -1 },
		"Prefixes must":                  func(o *Options) { o.Prefixes = []string{"/k8s"} },
	} {
		options := newWorld(t).options
		change(&options)
		if _, err := New(options); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("want an error about %q, got %v", field, err)
		}
	}
}

// Clusters can be served below any path prefix, and the alias works.
func TestProxy_OtherPrefixes(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	w.cluster("a", whoami("a"))
	w.options.Prefixes = []string{"/drover/to/"}
	server := w.proxy()
	if got := sees(t, server, http.MethodGet, "/drover/to/c-m-a/version", token); got.Target != "/version" {
		t.Errorf("the cluster sees %s", got.Target)
	}
	if answer, _ := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a/version", token); answer.StatusCode != 404 {
		t.Errorf("got %d", answer.StatusCode)
	}
}

var _ http.Handler = (*Proxy)(nil)

func TestRecorder_NothingIsWrittenAfterAnUpgrade(t *testing.T) {
	r := &recorder{ResponseWriter: httptest.NewRecorder(), hijacked: true}
	r.WriteHeader(500)
	if _, err := r.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) || r.status != 0 {
		t.Errorf("got %v, status %d", err, r.status)
	}
}
