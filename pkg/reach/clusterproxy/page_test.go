package clusterproxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A page of a workload looks to a browser as if it came from Drover.
func TestPage_OfAWorkloadIsConfined(t *testing.T) {
	w := newWorld(t)
	token := w.user("jane", "a")
	page := "/api/v1/namespaces/x/services/y/proxy/index.html"
	w.cluster("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Type": "text/html", "X-Content-Type-Options": "sniff", "Set-Cookie": "R_SESS=theirs; Path=/",
			"Service-Worker-Allowed": "/", "Clear-Site-Data": `"*"`, "NEL": "{}", "Report-To": "{}",
			"Reporting-Endpoints": `a="/k8s/clusters/c-m-a/api"`, "Access-Control-Allow-Origin": "https://evil.example",
			"Access-Control-Allow-Credentials": "true", "Strict-Transport-Security": "max-age=1", "X-Own": "kept",
		} {
			w.Header().Set(name, value)
		}
		if strings.HasSuffix(r.URL.Path, ".html") {
			w.Header().Add("Content-Security-Policy", "default-src 'self'")
			w.Header().Add("Content-Security-Policy", "sandbox allow-scripts")
		}
	}))
	server := w.proxy()
	for target, policies := range map[string][]string{
		page:                                {"default-src 'self'", "sandbox allow-scripts", "sandbox"},
		"/api/v1/pods":                      {"sandbox"},
		"/apis/metrics.example.com/v1/page": {"sandbox"},
	} {
		answer, _ := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a"+target, token)
		answer.Header.Del("Date")
		answer.Header.Del("Audit-Id")
		want := http.Header{"Content-Type": {"text/html"}, "X-Content-Type-Options": {"nosniff"}, "X-Own": {"kept"},
			"Content-Security-Policy": policies, "Content-Length": {"0"}}
		if diff := cmp.Diff(want, answer.Header); diff != "" {
			t.Errorf("%s: headers (-want +got):\n%s", target, diff)
		}
	}
	refused, body := ask(t, server, http.MethodGet, "/k8s/clusters/c-m-a"+page, token, "Service-Worker: script")
	if status := statusOf(t, refused, body); status.Code != http.StatusForbidden ||
		refused.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the script of a service worker is answered with %d: %v", status.Code, refused.Header)
	}
}

func TestForeign_RequestsOfPagesThatAreNotDrovers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers []string
		want    bool
	}{
		"a program":       {nil, false},
		"the address bar": {[]string{"Sec-Fetch-Site: none"}, false},
		"Drover's own page": {[]string{"Sec-Fetch-Site: same-origin", "Origin: https://drover.example",
			"Referer: https://drover.example/ui/"}, false},
		"an old browser, own page":   {[]string{"Referer: https://drover.example/"}, false},
		"another site":               {[]string{"Sec-Fetch-Site: cross-site"}, true},
		"another host of the site":   {[]string{"Sec-Fetch-Site: same-site"}, true},
		"two contradicting sites":    {[]string{"Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"}, true},
		"a sandboxed page":           {[]string{"Origin: null"}, true},
		"a sandboxed page, own site": {[]string{"Sec-Fetch-Site: same-origin", "Origin: null"}, true},
		"another origin":             {[]string{"Origin: https://evil.example"}, true},
		"another port":               {[]string{"Origin: https://drover.example:8443"}, true},
		"without TLS":                {[]string{"Origin: http://drover.example"}, true},
		"two origins":                {[]string{"Origin: https://drover.example", "Origin: null"}, true},
		"an unreadable origin":       {[]string{"Origin: %zz"}, true},
		"a page from a cluster": {[]string{"Sec-Fetch-Site: same-origin",
			"Referer: https://drover.example/k8s/clusters/c-m-a/api/v1/namespaces/x/services/y/proxy/"}, true},
		"a page at the alias":    {[]string{"Referer: https://drover.example/k8s/proxy/c-m-a/x"}, true},
		"a page of another host": {[]string{"Referer: https://evil.example/"}, true},
		"an unreadable referer":  {[]string{"Referer: https://%zz"}, true},
		"a WebSocket of another site": {[]string{"Connection: Upgrade", "Upgrade: websocket",
			"Origin: https://evil.example"}, true},
		"a report that a page directs": {[]string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Dest: report"}, true},
	} {
		r := httptest.NewRequest(http.MethodGet, "https://drover.example/k8s/clusters/c-m-a/", nil)
		r.Header = headersOf(test.headers)
		if got := foreign(r, DefaultPrefixes()); got != test.want {
			t.Errorf("%s: foreign is %v", name, got)
		}
	}
}
