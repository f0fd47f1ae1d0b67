package cmd

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"

	"github.com/sirupsen/logrus"
)

// errNoServerURL is the answer where nobody but the operator knows how machines reach the server.
var errNoServerURL = errors.New("--server-url is required: the https address under which machines reach this server; only --embedded finds one by itself")

// chooseServerURL fills in --server-url with --embedded, where the server runs on this very host. Elsewhere a load balancer
// or a Service may stand before it.
func (o *serverOptions) chooseServerURL(ctx context.Context, log logrus.FieldLogger) {
	if o.settings.ServerURL != "" || !o.embedded {
		return
	}
	o.settings.ServerURL = serverURL(o.bindAddress, o.port, func() netip.Addr { return hostAddress(ctx) })
	log.WithField("server-url", o.settings.ServerURL).Info("Machines are told to reach this server here; give --server-url if they cannot, or if the address may change")
}

// serverURL is the address of a server that listens on bind: bind itself, or the host's own address if that is any.
func serverURL(bind string, port int, host func() netip.Addr) string {
	if address, err := netip.ParseAddr(bind); bind == "" || err == nil && address.IsUnspecified() {
		bind = host().String()
	}
	return "https://" + net.JoinHostPort(bind, strconv.Itoa(port))
}

// routeProbes are addresses for documentation (RFC 5737, RFC 3849). No packet is sent to them: they only make the kernel
// choose a route, and with it the address that this host shows to others.
var routeProbes = []string{"192.0.2.1:9", "[2001:db8::1]:9"}

// hostAddress is the address of this host that others on its network can reach: that of the route it would use, else the
// first one of its interfaces, else the loopback address.
func hostAddress(ctx context.Context) netip.Addr {
	var candidates []net.Addr
	for _, probe := range routeProbes {
		if connection, err := (&net.Dialer{}).DialContext(ctx, "udp", probe); err == nil {
			candidates = append(candidates, connection.LocalAddr())
			_ = connection.Close() // nothing was sent on it
		}
	}
	// Interfaces that cannot be listed are as good as none.
	if interfaces, err := net.InterfaceAddrs(); err == nil {
		candidates = append(candidates, interfaces...)
	}
	return firstReachable(candidates)
}

// firstReachable is the first address that has a meaning outside of this host and of one link.
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
