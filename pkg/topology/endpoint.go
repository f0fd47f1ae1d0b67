package topology

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// EndpointHost is the HOST or HOST:PORT that spec.localClusterAuthEndpoint.fqdn names. An https:// before it is tolerated. ok is false for all that would be more
// than the host in a URL, a path for example.
func EndpointHost(fqdn string) (host string, ok bool) {
	host = strings.TrimPrefix(fqdn, "https://")
	name := host
	if _, port, err := net.SplitHostPort(host); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return "", false
		}
		name = strings.TrimSuffix(host, ":"+port)
	}
	if inner, bracketed := strings.CutPrefix(name, "["); bracketed {
		inner, closed := strings.CutSuffix(inner, "]")
		address, err := netip.ParseAddr(inner)
		return host, closed && err == nil && address.Is6() && address.Zone() == ""
	}
	return host, len(validation.IsDNS1123Subdomain(strings.ToLower(name))) == 0
}
