package planner

import (
	"testing"

	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// A driver records a machine before it creates the host, and so before the host has addresses.
func TestDecide_TheFirstPlanWaitsForTheAddressesOfTheDriver(t *testing.T) {
	empty := &render.Driver{Name: "amazonec2"}
	for name, tc := range map[string]struct {
		driver *render.Driver
		edit   func(*Machine)
		want   bool // a plan is delivered
	}{
		"nothing is recorded":                   {},
		"no addresses are recorded":             {driver: empty},
		"a private address is recorded":         {driver: &render.Driver{PrivateIPAddress: "10.0.0.9"}, want: true},
		"a public address is recorded":          {driver: &render.Driver{IPAddress: "198.51.100.9"}, want: true},
		"an IPv6 address is recorded":           {driver: &render.Driver{IPv6Address: "2001:db8::9"}, want: true},
		"the driver of the host records none":   {empty, func(m *Machine) { m.InfrastructureReady = true }, true},
		"the driver of the node recorded none":  {empty, func(m *Machine) { m.HasNode = true }, true},
		"an existing host is not recorded yet":  {edit: func(m *Machine) { m.InfrastructureReady = true }},
		"the host itself names its addresses":   {empty, func(m *Machine) { m.Annotations = registered }, true},
		"a host without a driver names nothing": {edit: func(m *Machine) { m.Provisioned = false }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := small(t)
			added := w.add("x", "worker")
			added.m.Provisioned, added.m.Driver, added.m.InfrastructureReady = true, tc.driver, false
			if tc.edit != nil {
				tc.edit(&added.m)
			}
			w.run(t)
			if got := added.hasPlan(); got != tc.want {
				t.Errorf("a plan is delivered: %v, want %v", got, tc.want)
			}
		})
	}
}

// registered are the annotations of a host that gave both addresses when it registered.
var registered = map[string]string{
	"rke.cattle.io/internal-address": "10.0.0.9", "rke.cattle.io/address": "198.51.100.9",
}

// The first plan has the addresses, so their arrival restarts nothing.
func TestDecide_TheAddressesOfTheDriverArriveWithTheFirstPlan(t *testing.T) {
	w := small(t)
	added := w.add("x", "worker")
	added.m.Provisioned, added.m.InfrastructureReady = true, false
	for _, recorded := range []render.Driver{
		{Name: "amazonec2"},
		{Name: "amazonec2", IPAddress: "198.51.100.9", PrivateIPAddress: "10.0.0.9"},
	} {
		added.m.Driver = &recorded
		for _, e := range effectsOf[DeliverPlan](w.run(t)) {
			if !e.First {
				t.Errorf("another plan is delivered, cause %q", e.Cause)
			}
		}
	}
	if !added.hasPlan() {
		t.Error("no plan is delivered")
	}
}
