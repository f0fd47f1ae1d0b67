package clusterproxy

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestSplitPath_ComparesBytes(t *testing.T) {
	for escaped, want := range map[string]target{
		"/k8s/clusters/c-m-a":                       {"c-m-a", "/k8s/clusters/c-m-a", "/"},
		"/k8s/clusters/c-m-a/":                      {"c-m-a", "/k8s/clusters/c-m-a", "/"},
		"/k8s/proxy/c-m-a/api/v1":                   {"c-m-a", "/k8s/proxy/c-m-a", "/api/v1"},
		"/k8s/clusters/local/version":               {"local", "/k8s/clusters/local", "/version"},
		"/k8s/clusters/c-m-a//api":                  {"c-m-a", "/k8s/clusters/c-m-a", "//api"},
		"/k8s/clusters/c-m-a/../c-m-b/api":          {"c-m-a", "/k8s/clusters/c-m-a", "/../c-m-b/api"},
		"/k8s/clusters/c-m-a/%2e%2e/c-m-b":          {"c-m-a", "/k8s/clusters/c-m-a", "/%2e%2e/c-m-b"},
		"/k8s/clusters/c-m-a/a%2fb":                 {"c-m-a", "/k8s/clusters/c-m-a", "/a%2fb"},
		"/k8s/clusters/c-m-a/k8s/clusters/c-m-b":    {"c-m-a", "/k8s/clusters/c-m-a", "/k8s/clusters/c-m-b"},
		"/k8s/clusters/1":                           {"1", "/k8s/clusters/1", "/"},
		"/k8s/clusters/a.b-c/":                      {"a.b-c", "/k8s/clusters/a.b-c", "/"},
		"/k8s/clusters/a_b/":                        {},
		"/k8s/clusters/.a/":                         {},
		"/k8s/clusters/a./":                         {},
		"/k8s/clusters/":                            {},
		"/k8s/clusters":                             {},
		"/k8s/clusters//c-m-a/":                     {},
		"/k8s/clusters/../clusters/c-m-a/":          {},
		"/k8s/clusters/./c-m-a/":                    {},
		"/k8s/clusters/%63-m-a/":                    {},
		"/k8s/clusters/c-m-a%2fapi":                 {},
		"/k8s%2fclusters/c-m-a/":                    {},
		"/K8S/clusters/c-m-a/":                      {},
		"/k8s/clusters/C-M-A/":                      {},
		"/k8s/clusters/c-m-a;x/":                    {},
		"/k8s/clusters/-a/":                         {},
		"/k8s/clusters/a-/":                         {},
		"/k8s/clusters/a..b/":                       {},
		"//k8s/clusters/c-m-a/":                     {},
		"/v1/k8s/clusters/c-m-a/":                   {},
		"/k8s/clusters/" + strings.Repeat("a", 254): {},
		"": {},
	} {
		got, ok := splitPath(escaped, DefaultPrefixes())
		if got != want || ok != (want.Cluster != "") {
			t.Errorf("%s: got %+v (%v), want %+v", escaped, got, ok, want)
		}
	}
}

func TestEscapedPath_DecodesNothing(t *testing.T) {
	for raw, want := range map[string]string{
		"/a%2fb":          "/a%2fb",
		"/a%2Fb|c":        "/a%2Fb%7Cc",
		`/k8s%2fx/"`:      "/k8s%2fx/%22",
		"/%2e%2e/ä":       "/%2e%2e/%C3%A4",
		"/a+b&c=d;e,f":    "/a+b&c=d;e,f",
		"/plain/path":     "/plain/path",
		"/(a)'*[b]!@:$~_": "/(a)'*[b]!@:$~_",
	} {
		parsed, err := url.ParseRequestURI(raw)
		check(t, err)
		if got := escapedPath(parsed); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
	changed := &url.URL{Path: "/k8s/clusters/c-m-a", RawPath: "/something%2felse"}
	if got := escapedPath(changed); got != "/k8s/clusters/c-m-a" {
		t.Errorf("a changed path is %s", got)
	}
}

// FuzzPath: for any request line, the cluster is the one in its plain bytes, and it receives the rest byte for byte.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"/k8s/clusters/c-m-a/api/v1/pods?limit=1", "/k8s/clusters/c-m-a", "/k8s/clusters/c-m-a/../c-m-b/x",
		"/k8s/clusters/c-m-a/%2e%2e/%2e%2e/c-m-b/", "/k8s/clusters/c-m-a%2f..%2fc-m-b/",
		"/k8s/clusters//c-m-b/", "/k8s/clusters/c-m-a//c-m-b", "//k8s/clusters/c-m-a/",
		"/k8s/proxy/c-m-b/a%2fb?x;y&z=%zz", "/k8s/clusters/c-m-a/\"%2f..|", "/k8s/clusters/c-m-a/?",
		"/k8s/clusters/c-m-a?",
		"http://other/k8s/clusters/c-m-a/x", "/k8s/clusters/c-m-a/x#y", "/k8s/clusters/c-m-a/\\..\\c-m-b",
		"/k8s/clusters/c-m-a/%00", "/k8s%2fclusters%2fc-m-b/\"", "*",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r, err := http.ReadRequest(
			bufio.NewReader(strings.NewReader("GET " + line +
				" HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer token-of-root\r\n\r\n")))
		if err != nil || !strings.HasPrefix(line, "/") {
			return
		}
		w, p := newCarrier(t)
		sent, answer := carried(w, p, r)
		if sent == nil {
			if answer.Code < 400 {
				t.Fatalf("%s: the request was not forwarded, and the answer is %d", line, answer.Code)
			}
			return
		}
		plain, _, _ := strings.Cut(r.RequestURI, "?")
		rest, below := strings.CutPrefix(plain, "/k8s/clusters/"+sent.URL.Host)
		if !below {
			rest, below = strings.CutPrefix(plain, "/k8s/proxy/"+sent.URL.Host)
		}
		if !below || rest != "" && rest[0] != '/' || w.clusters[sent.URL.Host].Name == "" {
			t.Fatalf("%q went to cluster %q", line, sent.URL.Host)
		}
		if rest == "" {
			rest = "/"
		}
		got := sent.URL.RequestURI()
		path, query, asks := strings.Cut(got, "?")
		_, wantQuery, wantAsks := strings.Cut(r.RequestURI, "?")
		if query != wantQuery || asks != wantAsks {
			t.Fatalf("%q: the query is %q", line, got)
		}
		if path != rest && !sameWithStray(path, rest) {
			t.Fatalf("%q: the cluster sees %q", line, got)
		}
		again, err := url.ParseRequestURI(got)
		if err != nil || again.Path != sent.URL.Path || !strings.HasPrefix(got, "/") {
			t.Fatalf("%q: the cluster reads %q as %v (%v)", line, got, again, err)
		}
	})
}

// sameWithStray reports whether path equals rest, except that bytes not allowed in a path are escaped.
func sameWithStray(path, rest string) bool {
	for len(rest) > 0 {
		if strings.HasPrefix(path, rest[:1]) {
			path, rest = path[1:], rest[1:]
			continue
		}
		if strings.IndexByte(`%/.`, rest[0]) >= 0 || len(path) < 3 || path[0] != '%' {
			return false
		}
		if decoded, err := url.PathUnescape(path[:3]); err != nil || decoded != rest[:1] {
			return false
		}
		path, rest = path[3:], rest[1:]
	}
	return path == ""
}
