package topology_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/decide/topology"
	"github.com/drover-io/drover/pkg/testkit/build"
)

func TestEndpointHost(t *testing.T) {
	t.Parallel()
	for fqdn, want := range map[string]string{ // "" for none
		"demo.example.com": "demo.example.com", "Demo.Example.com:6443": "Demo.Example.com:6443",
		"https://demo.example.com": "demo.example.com", "10.0.0.1": "10.0.0.1",
		"10.0.0.1:443": "10.0.0.1:443", "[2001:db8::1]": "[2001:db8::1]", "[2001:db8::1]:6443": "[2001:db8::1]:6443",
		"demo": "demo",
		"":     "", "https://": "", "http://demo.example.com": "", "demo.example.com/": "",
		"drover.example.com/k8s/clusters/c-m-1": "", "user@demo.example.com": "", "demo.example.com:": "",
		"demo.example.com:0": "", "demo.example.com:70000": "", "demo.example.com:https": "", "demo.example.com?a": "",
		"demo.example.com#a": "", "demo example.com": "",
		"2001:db8::1": "", "[demo]": "", "[::1": "", "[fe80::1%eth0]": "", "https://https://demo": "",
		"demo.example.com\n": "", "*.example.com": "", ":6443": "", "[10.0.0.1]": "",
		"[10.0.0.1]:443": "",
	} {
		got, ok := topology.EndpointHost(fqdn)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %t; want %q", fqdn, got, ok, want)
		}
	}
}

func TestEndpointServers(t *testing.T) {
	t.Parallel()
	at := func(machine *clusterv1.Machine, node string, addresses ...clusterv1.MachineAddress) *clusterv1.Machine {
		machine.Status.NodeRef.Name, machine.Status.Addresses = node, addresses
		return machine
	}
	inside, outside := clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"},
		clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP, Address: "2001:db8::1"}
	leaving := at(build.Machine("demo", "leaving", "c"), "leaving", inside)
	leaving.DeletionTimestamp = new(metav1.NewTime(time.Unix(0, 0)))
	got := topology.EndpointServers([]*clusterv1.Machine{
		at(build.Machine("demo", "second", "ec"), "node-2", inside, outside),
		at(build.Machine("demo", "first", "ecw"), "node-1", clusterv1.MachineAddress{Type: clusterv1.MachineHostName,
			Address: "h"}, inside),
		at(build.Machine("demo", "etcd", "e"), "etcd", inside),
		at(build.Machine("demo", "young", "c"), ""),
		at(build.Machine("demo", "unnamed", "c"), "", clusterv1.MachineAddress{Type: clusterv1.MachineExternalDNS,
			Address: "u.example.com"}, inside),
		at(build.Machine("demo", "odd", "c"), "odd", clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP,
			Address: "fe80::1%eth0"}, clusterv1.MachineAddress{Type: clusterv1.MachineExternalDNS, Address: "evil/x?"}),
		leaving,
	})
	want := []topology.EndpointServer{{Node: "node-1", Host: "10.0.0.1:6443"},
		{Node: "node-2", Host: "[2001:db8::1]:6443"}, {Node: "unnamed", Host: "u.example.com:6443"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
}
