package clusterproxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// confine makes a browser treat an answer of a cluster as a foreign page, although Drover's host serves it. The
// cluster's API server, or a workload behind it, may answer with a page at any path. In a sandbox the page runs no
// script and has an origin of its own, so that it cannot use what the user may do here. A browser obeys all of several
// policies, so that the page's own policy cannot relax this one.
func confine(header http.Header) {
	header.Add("Content-Security-Policy", "sandbox")
	header.Set("X-Content-Type-Options", "nosniff")
}

// forServiceWorker reports whether a browser loads the script of a service worker. Such a script would handle all
// requests to a part of this host.
func forServiceWorker(in http.Header) bool { return len(in["Service-Worker"]) > 0 }

// foreign reports whether a browser may send a request for a page that is not Drover's own: a page of another site, or
// one that came from a cluster. Browsers add the user's certificate to such requests, but no bearer token. Other
// programs send none of these headers.
func foreign(r *http.Request, prefixes []string) bool {
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return true
		}
	}
	// A page from a cluster chooses where its browser sends reports. It may lack an origin of its own there.
	if slices.Contains(r.Header["Sec-Fetch-Dest"], "report") {
		return true
	}
	for _, origin := range r.Header["Origin"] {
		if from, err := url.Parse(origin); err != nil || !isHere(from, r) { // "null" has no host
			return true
		}
	}
	for _, referer := range r.Header["Referer"] {
		from, err := url.Parse(referer)
		if err != nil || !isHere(from, r) || slices.ContainsFunc(prefixes, func(prefix string) bool {
			return strings.HasPrefix(from.EscapedPath(), prefix)
		}) {
			return true
		}
	}
	return false
}

// isHere reports whether an address is at the host of a request, which came with TLS.
func isHere(from *url.URL, r *http.Request) bool {
	return from.Scheme == "https" && strings.EqualFold(from.Host, r.Host)
}
