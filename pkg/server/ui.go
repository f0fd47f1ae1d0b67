package server

import (
	"net/http"
	"strings"

	"github.com/drover-io/drover/pkg/controllers"
	"github.com/drover-io/drover/pkg/ui"
)

// UIPaths lists what a host has to route to Handler for Options.UI, in addition to Paths.
func UIPaths() []string { return []string{ui.Prefix} }

// newUI builds the web UI. It uses the address of the management cluster only, and the credential of each user.
func (s *Server) newUI() (http.Handler, error) {
	if !s.opts.UI {
		return nil, nil
	}
	return ui.New(ui.Options{
		Config: s.opts.RESTConfig, Key: ui.Key(s.every.Kubernetes, controllers.SystemNamespace),
		Version: s.opts.Version, Releases: *s.opts.Releases, Ending: s.drained, Log: s.opts.Log,
	})
}

// routeUI passes requests for the web UI to it, and all others to next. Browsers that ask for the root get its address.
func (s *Server) routeUI(pages, next http.Handler) http.Handler {
	if pages == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, ui.Prefix):
			if !s.isServing() {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "this replica is starting", http.StatusServiceUnavailable)
				return
			}
			pages.ServeHTTP(w, r)
		case path == strings.TrimSuffix(ui.Prefix, "/"), path == "/" && isBrowser(r):
			http.Redirect(w, r, ui.Prefix, http.StatusFound)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isBrowser reports whether a request asks for a page.
func isBrowser(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}
