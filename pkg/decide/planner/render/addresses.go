package render

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Drivers with special rules for addresses.
const (
	driverPod          = "pod"
	driverDigitalOcean = "digitalocean"
)

// addressSet are a machine's known addresses.
type addressSet struct {
	internal, external []string
	ipv6               string
	driver             string
}

// knownAddresses reads the addresses with which the machine was registered, and fills gaps from what its driver
// recorded.
func (m *machinePlan) knownAddresses() (addressSet, error) {
	machine := m.in.Machine
	known := addressSet{
		internal: splitList(machine.Annotations[rkev1.InternalAddressAnnotation]),
		external: splitList(machine.Annotations[rkev1.AddressAnnotation]),
	}
	if !machine.Provisioned || (len(known.internal) > 0 && len(known.external) > 0) {
		return known, nil
	}
	if machine.Driver == nil {
		return known, &PendingError{
			Message: fmt.Sprintf("Machine %s/%s waits for its saved driver configuration",
				machine.Namespace, machine.Name),
		}
	}
	known.driver, known.ipv6 = machine.Driver.Name, machine.Driver.IPv6Address
	if len(known.internal) == 0 {
		known.internal = splitList(machine.Driver.PrivateIPAddress)
	}
	if len(known.external) == 0 {
		known.external = splitList(machine.Driver.IPAddress)
	}
	return known, nil
}

func (m *machinePlan) layerAddresses() error {
	known, err := m.knownAddresses()
	if err != nil {
		return err
	}
	if known.driver == driverPod {
		return nil
	}
	primary := firstFamily(stringsOf(m.user["service-cidr"]))
	nodeIP := orderByFamily(m.nodeIPs(known), primary)
	if len(nodeIP) > 0 {
		m.config["node-ip"] = anyList(nodeIP)
	}
	externalIP := orderByFamily(m.externalIPs(known, nodeIP), primary)
	if len(externalIP) > 0 {
		m.config["node-external-ip"] = anyList(externalIP)
	}
	if m.roles.Server() && len(nodeIP) > 0 && len(externalIP) > 0 && !sameSet(nodeIP, externalIP) {
		if user, _ := m.config["advertise-address"].(string); user == "" {
			m.config["advertise-address"] = nodeIP[0]
		}
		m.extendUnique("tls-san", externalIP)
	}
	return nil
}

// nodeIPs returns the user's node addresses and the internal ones.
func (m *machinePlan) nodeIPs(known addressSet) []string {
	internal := known.internal
	if known.driver == driverDigitalOcean && len(internal) == 0 {
		internal = known.external
	}
	return unique(stringsOf(m.config["node-ip"]), internal, splitList(known.ipv6))
}

// externalIPs returns the user's external addresses, and the known ones that are not node addresses. A cloud provider
// sets them itself. Link-local addresses are omitted, because other hosts cannot use them.
func (m *machinePlan) externalIPs(known addressSet, nodeIP []string) []string {
	user := stringsOf(m.config["node-external-ip"])
	cloudProvider, _ := m.user["cloud-provider-name"].(string)
	if cloudProvider != "" || len(nodeIP) == 0 {
		return user
	}
	external := slices.DeleteFunc(slices.Clone(known.external), func(address string) bool {
		ip, err := netip.ParseAddr(address)
		linkLocal := err == nil && ip.Is6() && ip.IsLinkLocalUnicast()
		return linkLocal || slices.Contains(nodeIP, address)
	})
	return unique(user, external)
}

func (m *machinePlan) extendUnique(key string, values []string) {
	list := listOf(m.config[key])
	for _, value := range values {
		if !slices.Contains(list, any(value)) {
			list = append(list, value)
		}
	}
	m.config[key] = list
}

// family is the family of an address or network.
type family int

const (
	noFamily family = iota
	ipv4
	ipv6
)

func familyOf(ip netip.Addr) family {
	if ip.Unmap().Is4() {
		return ipv4
	}
	return ipv6
}

// firstFamily is the family of the first network; noFamily when there is none or it is unreadable.
func firstFamily(cidrs []string) family {
	if len(cidrs) == 0 {
		return noFamily
	}
	prefix, err := netip.ParsePrefix(cidrs[0])
	if err != nil {
		return noFamily
	}
	return familyOf(prefix.Addr())
}

// orderByFamily puts addresses of the primary family first, then the other family, then other texts, such as the name
// of an interface. Without a primary family the order stays.
func orderByFamily(addresses []string, primary family) []string {
	if primary == noFamily {
		return addresses
	}
	rank := func(address string) int {
		ip, err := netip.ParseAddr(address)
		switch {
		case err != nil:
			return 2
		case familyOf(ip) == primary:
			return 0
		default:
			return 1
		}
	}
	out := slices.Clone(addresses)
	slices.SortStableFunc(out, func(a, b string) int { return rank(a) - rank(b) })
	return out
}

func splitList(list string) []string {
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// unique joins lists in order, without duplicates.
func unique(lists ...[]string) []string {
	var out []string
	for _, list := range lists {
		for _, item := range list {
			if !slices.Contains(out, item) {
				out = append(out, item)
			}
		}
	}
	return out
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(unique(a))), slices.Sorted(slices.Values(unique(b))))
}

func anyList(values []string) []any {
	out := make([]any, len(values))
	for i, value := range values {
		out[i] = value
	}
	return out
}
