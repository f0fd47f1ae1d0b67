package ui

import (
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestPage_HasAStrictPolicyWithItsNonce(t *testing.T) {
	p := newPage(t, options(&rest.Config{Host: "https://api.example.com"}))
	var nonces []string
	for _, path := range []string{"/ui/", "/ui/clusters/team-a/demo"} {
		got := p.get(path)
		nonce := regexp.MustCompile(`name="csp-nonce" content="([\w-]+)"`).FindStringSubmatch(got.Body.String())
		if got.Code != http.StatusOK || nonce == nil {
			t.Fatalf("%s: %d %s", path, got.Code, got.Body)
		}
		nonces = append(nonces, nonce[1])
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-" + nonce[1] +
				"'; img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
				"frame-ancestors 'none'",
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := got.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
	if nonces[0] == nonces[1] {
		t.Error("two answers have the same nonce")
	}
}

func TestAPI_AnswersAreNoPages(t *testing.T) {
	p := newPage(t, options(&rest.Config{Host: "https://api.example.com"}))
	got := p.get("/ui/api/v1/session")
	if policy := got.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "sandbox") ||
		!strings.Contains(policy, "default-src 'none'") || got.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("policy %q", policy)
	}
	for _, path := range []string{"/ui/api", "/ui/api/", "/ui/api/v1/unknown", "/ui/api/v2/session"} {
		wants(t, p.get(path), http.StatusNotFound, reasonNotFound)
	}
}

func TestFiles_AreServedWithGzip(t *testing.T) {
	script := []byte(strings.Repeat("let a = 1;\n", 1000))
	f := &files{all: map[string]file{
		"assets/app-1234.js": {plain: script, packed: pack(script, mediaTypes[".js"]), mediaType: mediaTypes[".js"]},
		"icon.svg":           {plain: []byte("<svg/>"), mediaType: mediaTypes[".svg"]},
	}, index: "index"}
	p := &page{t: t, handler: f, base: "https://drover.example.com"}
	const forever = "public, max-age=31536000, immutable"
	for name, tc := range map[string]struct {
		path, accept, encoding, cache string
		code                          int
	}{
		"a browser":           {"/ui/assets/app-1234.js", "gzip, deflate, br", "gzip", forever, 200},
		"a client without it": {"/ui/assets/app-1234.js", "", "", forever, 200},
		"a refusal":           {"/ui/assets/app-1234.js", "gzip;q=0", "", forever, 200},
		"a small file":        {"/ui/icon.svg", "gzip", "", "no-cache", 200},
		"a former file":       {"/ui/assets/app-0000.js", "gzip", "", "", 404},
		"a folder":            {"/ui/assets/", "gzip", "", "", 404},
		"above the files":     {"/ui/../assets.go", "gzip", "", "no-store", 200},
	} {
		t.Run(name, func(t *testing.T) {
			r := p.request(http.MethodGet, tc.path, "")
			r.Header.Set("Accept-Encoding", tc.accept)
			got := p.do(r)
			if got.Code != tc.code || got.Header().Get("Content-Encoding") != tc.encoding ||
				got.Header().Get("Cache-Control") != tc.cache {
				t.Errorf("got %d, headers %v", got.Code, got.Header())
			}
			if tc.encoding == "gzip" {
				reader, err := gzip.NewReader(got.Body)
				check(t, err)
				if content, err := io.ReadAll(reader); err != nil || string(content) != string(script) {
					t.Errorf("the content differs (%v)", err)
				}
			}
		})
	}
	if got := p.do(p.request(http.MethodPost, "/ui/", "")); got.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", got.Code)
	}
}
