package clusterproxy

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
)

const (
	impersonatePrefix = "impersonate-"
	auditIDHeader     = "Audit-Id"
	protocolHeader    = "Sec-Websocket-Protocol"
	// bearerProtocol is the prefix of the WebSocket subprotocol in which browsers send a bearer token, base64url
	// without padding.
	bearerProtocol = "base64url.bearer.authorization.k8s.io." //nolint:gosec // the beginning of a name
)

// Headers that are not forwarded to a cluster: those that claim an identity, for Kubernetes or for proxies in front of
// it, and hop-by-hop headers. Underscores count as hyphens, because some servers treat them alike.
var (
	withheldPrefixes = []string{impersonatePrefix, "x-remote-", "x-forwarded-", "proxy-", "x-api-tunnel-", "x-cattle-",
		"x-drover-"}
	withheldNames = map[string]bool{
		"authorization": true, "cookie": true, "forwarded": true, "via": true, "x-real-ip": true,
		"connection": true, "keep-alive": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
		"http2-settings": true,
		"expect":         true, "host": true, "content-length": true, "audit-id": true,
	}
)

// isDropped reports whether a header is not forwarded.
func isDropped(name string) bool {
	plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return withheldNames[plain] || slices.ContainsFunc(withheldPrefixes, func(prefix string) bool {
		return strings.HasPrefix(plain+"-", prefix)
	})
}

// outboundHeaders are the headers that a cluster sees: those of the request except isDropped ones, and the decided
// identity. upgrade is the requested protocol of the connection, or "".
func outboundHeaders(in http.Header, as Identity, upgrade, requestID string) http.Header {
	out := http.Header{}
	for name, values := range in {
		if isDropped(name) {
			continue
		}
		if strings.EqualFold(name, protocolHeader) {
			_, values = splitProtocols(values)
		}
		if len(values) > 0 {
			out[name] = slices.Clone(values)
		}
	}
	maps.Copy(out, as.headers())
	out[auditIDHeader] = []string{requestID}
	if upgrade != "" {
		out["Connection"], out["Upgrade"] = []string{"Upgrade"}, []string{upgrade}
	}
	return out
}

// headers are the impersonation headers for this identity.
func (i Identity) headers() http.Header {
	out := http.Header{authenticationv1.ImpersonateUserHeader: {i.Name}}
	if i.UID != "" {
		out[textproto.CanonicalMIMEHeaderKey(authenticationv1.ImpersonateUIDHeader)] = []string{i.UID}
	}
	if len(i.Groups) > 0 {
		out[authenticationv1.ImpersonateGroupHeader] = slices.Clone(i.Groups)
	}
	for key, values := range i.Extra {
		if len(values) > 0 {
			out[textproto.CanonicalMIMEHeaderKey(authenticationv1.ImpersonateUserExtraHeaderPrefix+
				encodeKey(key))] = slices.Clone(values)
		}
	}
	return out
}

// encodeKey encodes the key of an extra as part of a header name. Header names are case-insensitive, so it also escapes
// capital letters.
func encodeKey(key string) string {
	var out strings.Builder
	for i := range len(key) {
		c := key[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$&'*+-.^_`|~", c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02x", c)
		}
	}
	return out.String()
}

// splitProtocols separates bearer tokens from the values of Sec-WebSocket-Protocol. tokens remain encoded. rest has at
// most one value.
func splitProtocols(values []string) (tokens, rest []string) {
	for _, value := range values {
		for protocol := range strings.SplitSeq(value, ",") {
			protocol = strings.TrimSpace(protocol)
			if token, found := strings.CutPrefix(protocol, bearerProtocol); found {
				tokens = append(tokens, token)
			} else if protocol != "" {
				rest = append(rest, protocol)
			}
		}
	}
	if len(rest) > 0 {
		rest = []string{strings.Join(rest, ", ")}
	}
	return tokens, rest
}

// upgradeOf is the protocol that a request wants to switch to: WebSocket or SPDY, the two streaming protocols of
// Kubernetes. Other protocols, especially HTTP/2 without TLS, are not forwarded, because they would carry unchecked
// requests.
func upgradeOf(in http.Header) string {
	wanted := in["Upgrade"]
	if len(wanted) != 1 || !hasToken(in["Connection"], "upgrade") {
		return ""
	}
	if protocol := strings.TrimSpace(wanted[0]); strings.EqualFold(protocol, "websocket") ||
		strings.EqualFold(protocol, "SPDY/3.1") {
		return protocol
	}
	return ""
}

// hasToken reports whether a token is in the comma-separated values of a header.
func hasToken(values []string, token string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// dropped are answer headers that affect all of this server, or concern the credential of the cluster's agent. A
// cluster, or a workload behind it, must not set them.
var dropped = []string{
	"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Alt-Svc", "Strict-Transport-Security", "Public-Key-Pins",
	"Public-Key-Pins-Report-Only", "Expect-Ct", "Nel", "Report-To", "Reporting-Endpoints", "Accept-Ch",
	"Origin-Agent-Cluster", "Service-Worker-Allowed", "Refresh",
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Timing-Allow-Origin",
	"Www-Authenticate", "Proxy-Authenticate", "Proxy-Authentication-Info", "Authentication-Info",
}

// cleanAnswer removes headers that the cluster must not set, and confines its pages. at is the target of the request.
// hosts are the host names that mean the cluster in a Location. away reports that the answer had a Location that leads
// elsewhere, which was removed.
func cleanAnswer(header http.Header, at target, hosts []string) (away bool) {
	for _, name := range dropped {
		header.Del(name)
	}
	confine(header)
	locations := header["Location"]
	header.Del("Location")
	if len(locations) == 1 {
		if here, ok := relocate(locations[0], at, hosts); ok {
			header.Set("Location", here)
			return false
		}
	}
	return len(locations) > 0
}
