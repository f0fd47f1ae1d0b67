package clusterproxy

import (
	"net/url"
	"slices"
	"strings"
)

// relocate turns the Location of a cluster's answer into one that is good for the client: what is on the cluster is below the cluster's prefix here. ok is
// false for one that would leave the prefix, by its path or to another host: client-go follows redirects and shows its credential of the management cluster
// to whatever host they lead to, so a cluster, its agent or a workload behind the API server's proxy could have it sent anywhere.
func relocate(location string, at target, hosts []string) (string, bool) {
	to, err := url.Parse(location)
	if err != nil || to.Opaque != "" || to.User != nil || to.Host == "" && to.Scheme != "" {
		return "", false
	}
	if to.Host != "" && !slices.ContainsFunc(hosts, func(host string) bool { return strings.EqualFold(host, to.Host) }) {
		return "", false
	}
	to.Scheme, to.Host = "", ""
	base, ok := at.url(&url.URL{})
	if !ok {
		return "", false
	}
	resolved := base.ResolveReference(to) // a reference cannot climb above the root of the cluster
	if !straight(resolved.EscapedPath()) {
		return "", false
	}
	return at.Prefix + resolved.EscapedPath() + after("?", resolved.RawQuery) + after("#", resolved.EscapedFragment()), true
}

// after is a part of a URL behind its sign, when it is there.
func after(sign, part string) string {
	if part == "" {
		return ""
	}
	return sign + part
}

// straight reports whether no client can take a segment of an escaped path for a step upwards.
func straight(escaped string) bool {
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
