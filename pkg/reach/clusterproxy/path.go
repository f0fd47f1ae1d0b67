package clusterproxy

import (
	"fmt"
	"net/url"
	"strings"
)

// maxID is the longest identifier of a cluster, that of a Kubernetes name.
const maxID = 253

// target is what a path asks for.
type target struct {
	// Cluster identifies the cluster, c-m-….
	Cluster string
	// Prefix is the part of the escaped path before what the cluster sees, without a slash at its end.
	Prefix string
	// Rest is the escaped path that the cluster sees. It begins with a slash.
	Rest string
}

// escapedPath is the path of a URL as it came. net/url decodes and encodes a path anew if it has a byte that should have been escaped, and %2f becomes a
// slash by that; here such a byte is escaped, and nothing else changes.
func escapedPath(from *url.URL) string {
	plain, err := url.PathUnescape(from.RawPath)
	if from.RawPath == "" || err != nil || plain != from.Path {
		return from.EscapedPath()
	}
	var out strings.Builder
	for _, c := range []byte(from.RawPath) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~$&+,/:;=@!'()*[]%", c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

// splitPath finds the cluster in an escaped path. It compares bytes: what is escaped, doubled or points upwards is neither cleaned nor decoded, so it cannot
// move a request to another cluster, and reaches the cluster as it came.
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

// isID reports whether a text can be the name of a management Cluster.
func isID(id string) bool {
	if id == "" || len(id) > maxID || strings.Contains(id, "..") || !isAlphanumeric(id[0]) || !isAlphanumeric(id[len(id)-1]) {
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

// url returns the URL that the cluster is asked with. Scheme and host are names of ours, which the transport replaces. ok is false for a path
// that cannot be decoded.
func (t target) url(from *url.URL) (out *url.URL, ok bool) {
	path, err := url.PathUnescape(t.Rest)
	if err != nil {
		return nil, false
	}
	return &url.URL{
		Scheme: "https", Host: t.Cluster, Path: path, RawPath: t.Rest, RawQuery: from.RawQuery, ForceQuery: from.ForceQuery,
	}, true
}
