package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRouteUI(t *testing.T) {
	answer := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("By", text) })
	}
	for name, tc := range map[string]struct {
		path, accept string
		off, early   bool
		code         int
		by, location string
	}{
		"a page":                         {path: "/ui/clusters", code: 200, by: "ui"},
		"a page before it is ready":      {path: "/ui/", early: true, code: 503},
		"without a slash":                {path: "/ui", code: 302, location: "/ui/"},
		"a browser at the root":          {path: "/", accept: "text/html,*/*", code: 302, location: "/ui/"},
		"a machine at the root":          {path: "/", code: 200, by: "machines"},
		"a path of machines":             {path: "/cacerts", accept: "text/html", code: 200, by: "machines"},
		"a path that begins like the UI": {path: "/uinit", code: 200, by: "machines"},
		"a host without the UI":          {path: "/ui/", off: true, code: 200, by: "machines"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{serving: make(chan struct{})}
			if !tc.early {
				close(s.serving)
			}
			pages := answer("ui")
			if tc.off {
				pages = nil
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tc.path, nil)
			r.Header.Set("Accept", tc.accept)
			recorder := httptest.NewRecorder()
			s.routeUI(pages, answer("machines")).ServeHTTP(recorder, r)
			if recorder.Code != tc.code || recorder.Header().Get("By") != tc.by ||
				recorder.Header().Get("Location") != tc.location {
				t.Errorf("got %d, headers %v", recorder.Code, recorder.Header())
			}
		})
	}
}
