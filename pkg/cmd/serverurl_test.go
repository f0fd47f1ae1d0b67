package cmd

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServerURL(t *testing.T) {
	for name, tc := range map[string]struct {
		bind, host string
		want       string
	}{
		"an unspecified IPv4 address": {bind: "0.0.0.0", host: "192.0.2.7", want: "https://192.0.2.7:8443"},
		"an unspecified IPv6 address": {bind: "::", host: "2001:db8::7", want: "https://[2001:db8::7]:8443"},
		"without an address":          {bind: "", host: "192.0.2.7", want: "https://192.0.2.7:8443"},
		"a single IPv4 address":       {bind: "198.51.100.1", host: "192.0.2.7", want: "https://198.51.100.1:8443"},
		"a single IPv6 address":       {bind: "2001:db8::1", host: "192.0.2.7", want: "https://[2001:db8::1]:8443"},
		"a host name": {bind: "drover.example.com", host: "192.0.2.7",
			want: "https://drover.example.com:8443"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := serverURL(tc.bind, 8443, func() netip.Addr {
				return netip.MustParseAddr(tc.host)
			}); got != tc.want {
				t.Errorf("server URL %s, want %s", got, tc.want)
			}
		})
	}
}

func TestFirstReachable(t *testing.T) {
	network := func(text string) net.Addr { return &net.IPNet{IP: net.ParseIP(text), Mask: net.CIDRMask(24, 32)} }
	route := func(text string) net.Addr { return &net.UDPAddr{IP: net.ParseIP(text), Port: 1} }
	for name, tc := range map[string]struct {
		candidates []net.Addr
		want       string
	}{
		"a host without a network": {want: "127.0.0.1"},
		"only the loopback address": {candidates: []net.Addr{network("127.0.0.1"), network("::1")},
			want: "127.0.0.1"},
		"the route comes before interfaces": {candidates: []net.Addr{route("192.0.2.7"), network("10.0.0.1")},
			want: "192.0.2.7"},
		"a private address": {candidates: []net.Addr{network("127.0.0.1"), network("10.0.0.1")},
			want: "10.0.0.1"},
		"a link-local address is skipped": {candidates: []net.Addr{route("fe80::1"), network("169.254.1.1"),
			network("10.0.0.1")}, want: "10.0.0.1"},
		"a route to the host itself": {candidates: []net.Addr{route("127.0.0.1"), network("2001:db8::7")},
			want: "2001:db8::7"},
		"an address of an unknown family": {candidates: []net.Addr{&net.UnixAddr{Name: "x"}}, want: "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := firstReachable(tc.candidates).String(); got != tc.want {
				t.Errorf("address %s, want %s", got, tc.want)
			}
		})
	}
}

// The address that is found on the test's host can be listened on.
func TestHostAddress_IsAnAddressOfTheHost(t *testing.T) {
	listener, err := listen(t.Context(), net.JoinHostPort(hostAddress(t.Context()).String(), "0"))
	check(t, err)
	check(t, listener.Close())
}

// The documented command needs only a folder: it finds the address for machines and prints it. It fails only at the
// management plane's program, which is missing here.
func TestServer_EmbeddedFindsItsAddress(t *testing.T) {
	dir := t.TempDir()
	code, out := run(t, "server", "--embedded", "--data-dir", dir, "--kube-binary", filepath.Join(dir, "absent"))
	want := serverURL("0.0.0.0", 8443, func() netip.Addr { return hostAddress(t.Context()) })
	if code != 1 || strings.Contains(out, "--server-url is required") || !strings.Contains(out, want) ||
		!strings.Contains(out, "absent") {
		t.Errorf("exit code %d, want the address %s and the missing program in:\n%s", code, want, out)
	}
	code, out = run(t, "server", "--embedded", "--data-dir", dir, "--kube-binary", filepath.Join(dir, "absent"),
		"--server-url", "https://drover.example.com")
	if code != 1 || strings.Contains(out, "Machines will use") {
		t.Errorf("exit code %d, and the command searched for an address despite the flag:\n%s", code, out)
	}
}

// The README shows commands that work unchanged.
func TestReadme_NamesTheServersRequiredFlags(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	check(t, err)
	for _, want := range []string{"`drover server --embedded --data-dir DIR`",
		"`drover server --kubeconfig FILE --server-url URL`"} {
		if !strings.Contains(string(readme), want) {
			t.Errorf("README lacks %s", want)
		}
	}
}
