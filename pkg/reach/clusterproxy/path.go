package clusterproxy

import (
	"fmt"
	"net/url"
	"strings"
)

// maxID is the longest identifier of a cluster, as for Kubernetes names.
const maxID = 253

// target is the destination of a path.
type target struct {
	// Cluster identifies the cluster, c-m-….
	Cluster string
	// Prefix is the escaped path before the part that the cluster sees, without a trailing slash.
	Prefix string
	// Rest is the escaped path that the cluster sees. It begins with a slash.
	Rest string
}

// escapedPath is the original path of a URL. If a path contains a byte that should be escaped, net/url decodes and
// re-encodes it, and %2f becomes a slash. escapedPath escapes only such bytes and changes nothing else.
func escapedPath(from *url.URL) string {
	plain, err := url.PathUnescape(from.RawPath)
	if from.RawPath == "" || err != nil || plain != from.Path {
		return from.EscapedPath()
	}
	var out strings.Builder
	for _, c := range []byte(from.RawPath) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("-_.~$&+,/:;=@!'()*[]%", c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// splitPath finds the cluster in an escaped path. It compares bytes and neither cleans nor decodes. So escapes, double
// slashes and ".." cannot move a request to another cluster, and the cluster receives them unchanged.
func splitPath(escaped string, prefixes []string) (target, bool) {
	for _, prefix := range prefixes {
		after, found := strings.CutPrefix(escaped, prefix)
		if !found {
			continue
		}
		id, _, _ := strings.Cut(after, "/")
		if !isID(id) {
			return target{}, false
		}
		rest := after[len(id):]
		if rest == "" {
			rest = "/"
		}
		return target{Cluster: id, Prefix: prefix + id, Rest: rest}, true
	}
	return target{}, false
}

// isID reports whether a text is a valid name of a management Cluster.
func isID(id string) bool {
	if id == "" || len(id) > maxID || strings.Contains(id, "..") || !isAlphanumeric(id[0]) ||
		!isAlphanumeric(id[len(id)-1]) {
		return false
	}
	for _, c := range []byte(id) {
		if !isAlphanumeric(c) && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// url returns the URL for the cluster. Scheme and host are placeholders, which the transport replaces. ok is false for
// a path that cannot be decoded.
func (t target) url(from *url.URL) (out *url.URL, ok bool) {
	path, err := url.PathUnescape(t.Rest)
	if err != nil {
		return nil, false
	}
	return &url.URL{
		Scheme: "https", Host: t.Cluster, Path: path, RawPath: t.Rest, RawQuery: from.RawQuery,
		ForceQuery: from.ForceQuery,
	}, true
}
