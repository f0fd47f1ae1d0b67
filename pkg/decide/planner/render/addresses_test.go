package render_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func addressed(internal, external string) func(*render.Input) {
	return func(in *render.Input) {
		in.Machine.Annotations = map[string]string{rkev1.InternalAddressAnnotation: internal,
			rkev1.AddressAnnotation: external}
	}
}

func driven(driver render.Driver) func(*render.Input) {
	return func(in *render.Input) { in.Machine.Provisioned, in.Machine.Driver = true, &driver }
}

func TestPlan_Addresses(t *testing.T) {
	t.Parallel()
	cloud := render.Driver{Name: "amazonec2", IPAddress: "198.51.100.9", PrivateIPAddress: "10.0.0.9"}
	for name, tc := range map[string]struct {
		place string
		edits edits
		want  map[string]any
	}{
		"no addresses": {place: "init", want: map[string]any{}},
		"a registered host with both addresses": {place: "init", edits: edits{addressed("10.0.0.7", "203.0.113.7")},
			want: map[string]any{
				"node-ip": list("10.0.0.7"), "node-external-ip": list("203.0.113.7"), "advertise-address": "10.0.0.7",
				"tls-san": list("203.0.113.7"),
			}},
		"a worker advertises nothing": {place: "worker", edits: edits{addressed("10.0.0.7", "203.0.113.7")},
			want: map[string]any{
				"node-ip": list("10.0.0.7"), "node-external-ip": list("203.0.113.7"),
			}},
		"only an external address sets nothing": {place: "init", edits: edits{addressed("", "203.0.113.7")},
			want: map[string]any{}},
		"the same address twice is not external": {place: "init", edits: edits{addressed("10.0.0.7", "10.0.0.7")},
			want: map[string]any{"node-ip": list("10.0.0.7")}},
		"the name of an interface": {place: "worker", edits: edits{addressed("eth1", "")}, want: map[string]any{
			"node-ip": list("eth1"),
		}},
		"a driver's addresses": {place: "init", edits: edits{driven(cloud)}, want: map[string]any{
			"node-ip": list("10.0.0.9"), "node-external-ip": list("198.51.100.9"), "advertise-address": "10.0.0.9",
			"tls-san": list("198.51.100.9"),
		}},
		"each annotation overrides the driver": {place: "worker",
			edits: edits{addressed("10.1.1.1", ""), driven(cloud)}, want: map[string]any{
				"node-ip": list("10.1.1.1"), "node-external-ip": list("198.51.100.9"),
			}},
		"a driver without private address": {place: "init",
			edits: edits{driven(render.Driver{Name: "generic", IPAddress: "198.51.100.9"})}, want: map[string]any{}},
		"digitalocean falls back to the external one": {
			place: "worker", edits: edits{driven(render.Driver{Name: "digitalocean", IPAddress: "198.51.100.9"})},
			want: map[string]any{"node-ip": list("198.51.100.9")},
		},
		"the pod driver sets nothing": {place: "init",
			edits: edits{driven(render.Driver{Name: "pod", IPAddress: "1.1.1.1", PrivateIPAddress: "2.2.2.2"})},
			want:  map[string]any{}},
		"a second family is added": {place: "worker", edits: edits{driven(render.Driver{
			Name: "amazonec2", PrivateIPAddress: "10.0.0.9", IPv6Address: "2001:db8::9",
		})}, want: map[string]any{"node-ip": list("10.0.0.9", "2001:db8::9")}},
		"the first service network decides the order": {place: "worker", edits: edits{
			addressed("10.0.0.7,fd00::7,eth0", ""), global("service-cidr", "fd00:43::/112,10.43.0.0/16"),
		}, want: map[string]any{"node-ip": list("fd00::7", "10.0.0.7", "eth0")}},
		"an unreadable service network changes nothing": {place: "worker", edits: edits{
			addressed("fd00::7,10.0.0.7", ""), global("service-cidr", "nonsense"),
		}, want: map[string]any{"node-ip": list("fd00::7", "10.0.0.7")}},
		"a cloud provider sets external addresses itself": {place: "init", edits: edits{
			addressed("10.0.0.7", "203.0.113.7"), global("cloud-provider-name", "aws"),
		}, want: map[string]any{"node-ip": list("10.0.0.7")}},
		"link-local addresses are ignored": {place: "init", edits: edits{addressed("10.0.0.7", "fe80::1")},
			want: map[string]any{
				"node-ip": list("10.0.0.7"),
			}},
		"the user's advertised address is kept": {place: "init", edits: edits{
			addressed("10.0.0.7", "203.0.113.7"), global("advertise-address", "10.9.9.9"),
		}, want: map[string]any{
			"node-ip": list("10.0.0.7"), "node-external-ip": list("203.0.113.7"), "advertise-address": "10.9.9.9",
			"tls-san": list("203.0.113.7"),
		}},
		"the user's addresses are first": {place: "init", edits: edits{
			addressed("10.0.0.7", "203.0.113.7"), global("node-ip", "10.9.9.9"),
			global("node-external-ip", list("203.0.113.9")),
			global("tls-san", "api.example.com"),
		}, want: map[string]any{
			"node-ip": list("10.9.9.9", "10.0.0.7"), "node-external-ip": list("203.0.113.9", "203.0.113.7"),
			"advertise-address": "10.9.9.9",
			"tls-san":           list("api.example.com", "203.0.113.9", "203.0.113.7"),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := configOf(t, mustPlan(t, basicInput(distro.RKE2, tc.place, tc.edits...)), distro.RKE2)
			got := map[string]any{}
			for _, key := range []string{"node-ip", "node-external-ip", "advertise-address", "tls-san"} {
				if value, ok := config[key]; ok {
					got[key] = value
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlan_WaitsForFacts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   render.Input
		want string
	}{
		"the driver has not saved its configuration": {
			in:   basicInput(distro.K3s, "init", func(in *render.Input) { in.Machine.Provisioned = true }),
			want: "Machine fleet-default/demo-pool-1 waits for its saved driver configuration",
		},
		"one unknown address is enough to wait": {
			in: basicInput(distro.K3s, "init", addressed("10.0.0.7", ""), func(in *render.Input) {
				in.Machine.Provisioned = true
			}),
			want: "Machine fleet-default/demo-pool-1 waits for its saved driver configuration",
		},
		"there is no server to join": {
			in:   basicInput(distro.K3s, "worker", func(in *render.Input) { in.JoinURL = "" }),
			want: "Machine fleet-default/demo-pool-1 has no server to join yet",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := render.Plan(tc.in)
			var pending *render.PendingError
			if !errors.As(err, &pending) || pending.Message != tc.want {
				t.Errorf("error %v, want PendingError %q", err, tc.want)
			}
		})
	}
	both := basicInput(distro.K3s, "init", addressed("10.0.0.7", "203.0.113.7"), func(in *render.Input) {
		in.Machine.Provisioned = true
	})
	if _, _, err := render.Plan(both); err != nil {
		t.Errorf("with both addresses known there must be no wait: %v", err)
	}
}
