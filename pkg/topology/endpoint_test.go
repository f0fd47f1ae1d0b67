package topology_test

import (
	"testing"

	"github.com/drover-io/drover/pkg/topology"
)

func TestEndpointHost(t *testing.T) {
	t.Parallel()
	for fqdn, want := range map[string]string{ // "" for none
		"demo.example.com": "demo.example.com", "Demo.Example.com:6443": "Demo.Example.com:6443", "https://demo.example.com": "demo.example.com", "10.0.0.1": "10.0.0.1",
		"10.0.0.1:443": "10.0.0.1:443", "[2001:db8::1]": "[2001:db8::1]", "[2001:db8::1]:6443": "[2001:db8::1]:6443", "demo": "demo",
		"": "", "https://": "", "http://demo.example.com": "", "demo.example.com/": "", "drover.example.com/k8s/clusters/c-m-1": "", "user@demo.example.com": "", "demo.example.com:": "",
		"demo.example.com:0": "", "demo.example.com:70000": "", "demo.example.com:https": "", "demo.example.com?a": "", "demo.example.com#a": "", "demo example.com": "",
		"2001:db8::1": "", "[demo]": "", "[::1": "", "[fe80::1%eth0]": "", "https://https://demo": "", "demo.example.com\n": "", "*.example.com": "", ":6443": "", "[10.0.0.1]": "",
		"[10.0.0.1]:443": "",
	} {
		got, ok := topology.EndpointHost(fqdn)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %t; want %q", fqdn, got, ok, want)
		}
	}
}
