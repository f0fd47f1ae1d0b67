package clusterproxy

import (
	"net/url"
	"slices"
	"strings"
)

// relocate converts the Location of a cluster's answer to one that works for the client: paths of the cluster get its
// prefix here. ok is false if the Location leaves the prefix, by its path or to another host. client-go follows
// redirects and sends its credential of the management cluster to the target. So a cluster, its agent, or a workload
// behind the API server's proxy could otherwise capture that credential.
func relocate(location string, at target, hosts []string) (string, bool) {
	to, err := url.Parse(location)
	if err != nil || to.Opaque != "" || to.User != nil || to.Host == "" && to.Scheme != "" {
		return "", false
	}
	if to.Host != "" && !slices.ContainsFunc(hosts, func(host string) bool {
		return strings.EqualFold(host, to.Host)
	}) {
		return "", false
	}
	to.Scheme, to.Host = "", ""
	base, ok := at.url(&url.URL{})
	if !ok {
		return "", false
	}
	resolved := base.ResolveReference(to) // a reference cannot climb above the cluster's root
	if !hasNoDots(resolved.EscapedPath()) {
		return "", false
	}
	return at.Prefix + resolved.EscapedPath() + after("?", resolved.RawQuery) + after("#", resolved.EscapedFragment()),
		true
}

// after returns a part of a URL with its sign, or "".
func after(sign, part string) string {
	if part == "" {
		return ""
	}
	return sign + part
}

// hasNoDots reports whether no client can read a segment of an escaped path as "." or "..".
func hasNoDots(escaped string) bool {
	if !strings.HasPrefix(escaped, "/") {
		return false
	}
	path, err := url.PathUnescape(strings.ToLower(escaped))
	if err != nil {
		return false
	}
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	return !slices.Contains(segments, "..") && !slices.Contains(segments, ".")
}
