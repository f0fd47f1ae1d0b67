package cmd

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"

	"github.com/sirupsen/logrus"
)

// errNoServerURL is the error if only the operator can know how machines reach the server.
var errNoServerURL = errors.New(
	"--server-url is required: the https address at which machines reach this server; only --embedded finds one by " +
		"itself")

// chooseServerURL fills in --server-url with --embedded, because the server then runs on this host. Elsewhere, a load
// balancer or a Service may be in front of it.
func (o *serverOptions) chooseServerURL(ctx context.Context, log logrus.FieldLogger) {
	if o.settings.ServerURL != "" || !o.embedded {
		return
	}
	o.settings.ServerURL = serverURL(o.bindAddress, o.port, func() netip.Addr { return hostAddress(ctx) })
	log.WithField("server-url",
		o.settings.ServerURL).Info(
		"Machines will use this address of the server; set --server-url if they cannot reach it, or if the address " +
			"may change")
}

// serverURL is the address of a server that listens on bind. For an unspecified bind address it uses the host's own
// address.
func serverURL(bind string, port int, host func() netip.Addr) string {
	if address, err := netip.ParseAddr(bind); bind == "" || err == nil && address.IsUnspecified() {
		bind = host().String()
	}
	return "https://" + net.JoinHostPort(bind, strconv.Itoa(port))
}

// routeProbes are documentation addresses (RFC 5737, RFC 3849). No packet is sent to them. They only make the kernel
// choose a route, and with it this host's source address.
var routeProbes = []string{"192.0.2.1:9", "[2001:db8::1]:9"}

// hostAddress is the address at which other hosts on the network can reach this host. It is the source address of the
// route, else the first address of the interfaces, else the loopback address.
func hostAddress(ctx context.Context) netip.Addr {
	var candidates []net.Addr
	for _, probe := range routeProbes {
		if connection, err := (&net.Dialer{}).DialContext(ctx, "udp", probe); err == nil {
			candidates = append(candidates, connection.LocalAddr())
			_ = connection.Close() // nothing was sent on it
		}
	}
	// If interfaces cannot be listed, there are no further candidates.
	if interfaces, err := net.InterfaceAddrs(); err == nil {
		candidates = append(candidates, interfaces...)
	}
	return firstReachable(candidates)
}

// firstReachable is the first global unicast address.
func firstReachable(candidates []net.Addr) netip.Addr {
	for _, candidate := range candidates {
		var ip net.IP
		switch a := candidate.(type) {
		case *net.UDPAddr:
			ip = a.IP
		case *net.IPNet:
			ip = a.IP
		}
		if address, ok := netip.AddrFromSlice(ip); ok && address.Unmap().IsGlobalUnicast() {
			return address.Unmap()
		}
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
