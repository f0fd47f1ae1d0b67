package topology

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// EndpointHost returns the HOST or HOST:PORT from spec.localClusterAuthEndpoint.fqdn. It tolerates a leading https://.
// ok is false for anything that is more than the host of a URL, for example with a path.
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

// EndpointServer is one server that answers at a cluster's authorized endpoint.
type EndpointServer struct {
	// Node is the name of its node, or of its Machine while it has no node.
	Node string
	// Host is HOST:PORT of its API server.
	Host string
}

// EndpointServers returns the Machines of a cluster that run an API server and have an address, sorted by name. It
// prefers external addresses to internal ones.
func EndpointServers(machines []*clusterv1.Machine) []EndpointServer {
	var servers []EndpointServer
	for _, machine := range machines {
		if machine.Labels[rkev1.ControlPlaneRoleLabel] != "true" || machine.DeletionTimestamp != nil {
			continue
		}
		if host := hostFromOutside(machine.Status.Addresses); host != "" {
			servers = append(servers, EndpointServer{Node: cmp.Or(machine.Status.NodeRef.Name, machine.Name),
				Host: host})
		}
	}
	slices.SortFunc(servers, func(a, b EndpointServer) int { return cmp.Compare(a.Node, b.Node) })
	return servers
}

// hostFromOutside is the first valid address. Addresses come from a node and are not trusted.
func hostFromOutside(addresses clusterv1.MachineAddresses) string {
	for _, kind := range []clusterv1.MachineAddressType{
		clusterv1.MachineExternalIP, clusterv1.MachineExternalDNS, clusterv1.MachineInternalIP,
		clusterv1.MachineInternalDNS,
	} {
		for _, address := range addresses {
			host := net.JoinHostPort(address.Address, strconv.Itoa(distro.APIServerPort))
			if _, ok := EndpointHost(host); ok && address.Type == kind {
				return host
			}
		}
	}
	return ""
}
