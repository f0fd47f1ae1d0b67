package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
)

// The lab's network is the benchmarking range of RFC 2544, which no real network uses.
const (
	subnetBits  = 24
	gatewayText = "198.18.0.1"
	bridge      = "lab0"
	firstHost   = 10
	lastHost    = 250
)

// Gateway is the address of everything that manages machines: Drover, the management plane and the lab's API.
var Gateway = netip.MustParseAddr(gatewayText)

// ip runs iproute2's ip. Its error contains the output of ip.
func ip(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Network is a network namespace with a bridge that has the gateway address, and member namespaces that are connected
// to it.
type Network struct {
	// Namespace is the name of the namespace. The names of members begin with it.
	Namespace string
}

// Member returns the name of a member's namespace.
func (n Network) Member(member string) string { return n.Namespace + "-" + member }

// Make creates the namespace and its bridge.
func (n Network) Make(ctx context.Context) error {
	return each(ctx, [][]string{
		{"netns", "add", n.Namespace},
		{"-n", n.Namespace, "link", "set", "lo", "up"},
		{"-n", n.Namespace, "link", "add", bridge, "type", "bridge"},
		{"-n", n.Namespace, "addr", "add", fmt.Sprintf("%s/%d", Gateway, subnetBits), "dev", bridge},
		{"-n", n.Namespace, "link", "set", bridge, "up"},
	})
}

// Join creates the namespace of a member with an address and connects it to the bridge.
func (n Network) Join(ctx context.Context, member string, address netip.Addr) error {
	namespace, link := n.Member(member), linkName(member)
	return each(ctx, [][]string{
		{"netns", "add", namespace},
		{"-n", namespace, "link", "set", "lo", "up"},
		{"-n", n.Namespace, "link", "add", link, "type", "veth", "peer", "name", "host0", "netns", namespace},
		{"-n", n.Namespace, "link", "set", link, "master", bridge, "up"},
		{"-n", namespace, "addr", "add", fmt.Sprintf("%s/%d", address, subnetBits), "dev", "host0"},
		{"-n", namespace, "link", "set", "host0", "up"},
		{"-n", namespace, "route", "add", "default", "via", gatewayText},
	})
}

// each runs ip commands until one fails.
func each(ctx context.Context, commands [][]string) error {
	for _, args := range commands {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// makeNetwork creates the lab's namespace and bridge if they do not exist.
func (l *Lab) makeNetwork(ctx context.Context) error {
	if _, err := os.Stat(namespacePath(l.namespace)); err == nil {
		if ip(ctx, "-n", l.namespace, "link", "show", bridge) == nil {
			return nil
		}
		// A run was killed between the two steps. The record shows that the namespace is the lab's, and it is empty, so
		// it is created again.
		if err := ip(ctx, "netns", "del", l.namespace); err != nil {
			return err
		}
	}
	if err := l.record.add(kindNamespace, l.namespace); err != nil {
		return err
	}
	return l.network().Make(ctx)
}

// AddAddress gives everything that manages machines another address, which machines reach through their default route.
func (l *Lab) AddAddress(ctx context.Context, address netip.Addr) error {
	prefix := netip.PrefixFrom(address, address.BitLen())
	return ip(ctx, "-n", l.namespace, "addr", "replace", prefix.String(), "dev", bridge)
}

func (l *Lab) network() Network { return Network{Namespace: l.namespace} }

// linkName returns the name of a machine's veth end in the lab's namespace. It is a hash of the machine's name, because
// the limit is 15 bytes.
func linkName(machine string) string {
	sum := sha256.Sum256([]byte(machine))
	return "m" + hex.EncodeToString(sum[:])[:12]
}

// machineNamespace returns the network namespace of one machine.
func (l *Lab) machineNamespace(machine string) string { return l.network().Member(machine) }

// attach creates a machine's namespace and connects it to the bridge, if that is not done yet.
func (l *Lab) attach(ctx context.Context, machine string, address netip.Addr) error {
	namespace := l.machineNamespace(machine)
	if ip(ctx, "-n", namespace, "link", "show", "host0") == nil {
		return nil
	}
	if err := l.detach(ctx, machine); err != nil {
		return err
	}
	if err := l.record.add(kindNamespace, namespace); err != nil {
		return err
	}
	return l.network().Join(ctx, machine, address)
}

// detach removes a machine's namespace, and with it both ends of its veth pair.
func (l *Lab) detach(ctx context.Context, machine string) error {
	namespace := l.machineNamespace(machine)
	if _, err := os.Stat(namespacePath(namespace)); err == nil {
		if err := ip(ctx, "netns", "del", namespace); err != nil {
			return err
		}
	}
	// The pair disappears with the last process of the namespace. Delete it now, so that a new pair cannot collide with
	// its name.
	_ = ip(ctx, "-n", l.namespace, "link", "del", linkName(machine))
	return l.record.remove(kindNamespace, namespace)
}
