package ui

import (
	"crypto/rand"
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/reach/clusterproxy"
)

// isAPI reports whether a path belongs to the API and not to the pages.
func isAPI(path string) bool {
	return strings.HasPrefix(path, apiPrefix) || path == strings.TrimSuffix(apiPrefix, "/")
}

// harden sets the headers that all answers have.
func harden(header http.Header) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// confine sets the headers of an answer of the API. If a browser shows it as a page, it runs nothing.
func confine(header http.Header) {
	harden(header)
	header.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; "+
		"frame-ancestors 'none'; sandbox")
}

// policy is the policy of the pages. Libraries may add style elements with the nonce.
func policy(nonce string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-" + nonce + "'; img-src 'self' data:; " +
		"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func newNonce() string {
	var bytes [18]byte
	_, _ = rand.Read(bytes[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bytes[:])
}

// isForeign reports whether a browser sends the request for a page that is not the UI: a page of another site, or a
// page of a cluster, which the same host serves without an origin. The UI answers no such request with a cookie.
func isForeign(r *http.Request) bool {
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return true
		}
	}
	if slices.Contains(r.Header["Sec-Fetch-Dest"], "report") || len(r.Header["Service-Worker"]) > 0 {
		return true
	}
	isElsewhere := func(page string) bool {
		from, err := url.Parse(page)
		return err != nil || !strings.EqualFold(from.Host, r.Host) || isOfCluster(from.EscapedPath())
	}
	// A page without an origin sends "null", which has no host.
	return slices.ContainsFunc(r.Header["Origin"], isElsewhere) || slices.ContainsFunc(r.Header["Referer"], isElsewhere)
}

// isOfCluster reports whether a path is one that a cluster answers.
func isOfCluster(path string) bool {
	return slices.ContainsFunc(clusterproxy.DefaultPrefixes(), func(prefix string) bool {
		return strings.HasPrefix(path, prefix)
	})
}

// isLoopbackHost reports whether a Host header names this computer.
func isLoopbackHost(hostport string) bool {
	host := hostport
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback()
}
