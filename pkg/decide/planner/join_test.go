package planner

import (
	"fmt"
	"math"
	"testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

func TestAddress(t *testing.T) {
	ip := func(kind, address string) Address { return Address{Type: kind, Address: address} }
	for name, tc := range map[string]struct {
		machine Machine
		want    string
	}{
		"nothing is known": {},
		"the last internal address": {
			machine: Machine{Addresses: []Address{ip("InternalIP", "10.0.0.1"), ip("ExternalIP", "1.1.1.1"),
				ip("InternalIP", "10.0.0.2"), ip("Hostname", "h")}}, want: "10.0.0.2"},
		"else the first external address": {
			machine: Machine{Addresses: []Address{ip("Hostname", "h"), ip("ExternalIP", "1.1.1.1"),
				ip("ExternalIP", "2.2.2.2")}}, want: "1.1.1.1"},
		"else what registration said": {
			machine: Machine{Annotations: map[string]string{"rke.cattle.io/internal-address": "eth0, 10.0.0.3",
				"rke.cattle.io/address": "3.3.3.3"}}, want: "10.0.0.3"},
		"else its public address": {
			machine: Machine{Annotations: map[string]string{"rke.cattle.io/internal-address": "eth0",
				"rke.cattle.io/address": "3.3.3.3"}}, want: "3.3.3.3"},
		"else the driver's private one": {
			machine: Machine{Driver: &render.Driver{IPAddress: "4.4.4.4", PrivateIPAddress: "10.0.0.4"}},
			want:    "10.0.0.4"},
		"else the driver's public address": {machine: Machine{Driver: &render.Driver{IPAddress: "4.4.4.4"}},
			want: "4.4.4.4"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&machine{Machine: &tc.machine}).address(); got != tc.want {
				t.Errorf("address is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestJoinURL(t *testing.T) {
	output := func(name, stdout string, exit int) plan.PeriodicInstructionOutput {
		return plan.PeriodicInstructionOutput{Name: name, Stdout: []byte(stdout), ExitCode: exit,
			LastSuccessfulRunTime: "Mon Jan  2 15:04:05 UTC 2026"}
	}
	members := func(url string) string {
		return fmt.Sprintf(
			"%s\n{\"members\":[{\"name\":\"other\",\"clientURLs\":[\"https://9.9.9.9:2379\"]},{\"name\":\"me\",\"clientURLs\":[%q]}]}\n", "  100 some progress", url)
	}
	onlyEtcd := render.Roles{ETCD: true}
	for name, tc := range map[string]struct {
		roles   render.Roles
		init    bool
		address string
		outputs map[string]plan.PeriodicInstructionOutput
		want    string
	}{
		"by address": {roles: render.Roles{ETCD: true, ControlPlane: true}, init: true,
			address: "10.0.0.1", want: "https://10.0.0.1:9345"},
		"IPv6 in brackets": {roles: render.Roles{ControlPlane: true}, address: "fd00::1",
			want: "https://[fd00::1]:9345"},
		"no address":                   {roles: render.Roles{ControlPlane: true}},
		"another etcd machine has one": {roles: onlyEtcd, address: "10.0.0.1", want: "https://10.0.0.1:9345"},
		"an etcd init node reports itself": {roles: onlyEtcd, init: true, address: "10.0.0.1",
			outputs: map[string]plan.PeriodicInstructionOutput{"etcd-name": output("etcd-name", "me\n", 0),
				"capture-address": output("capture-address", members("https://10.5.5.5:2379"), 0)},
			want: "https://10.5.5.5:9345"},
		"also in IPv6": {roles: onlyEtcd, init: true,
			outputs: map[string]plan.PeriodicInstructionOutput{"etcd-name": output("etcd-name", "me", 0),
				"capture-address": output("capture-address", members("https://[fd00::5]:2379"), 0)},
			want: "https://[fd00::5]:9345"},
		"a failed report is none": {roles: onlyEtcd, init: true, address: "10.0.0.1",
			outputs: map[string]plan.PeriodicInstructionOutput{"etcd-name": output("etcd-name", "me", 0),
				"capture-address": output("capture-address", members("https://10.5.5.5:2379"), 7)}},
		"a name is no address": {roles: onlyEtcd, init: true,
			outputs: map[string]plan.PeriodicInstructionOutput{"etcd-name": output("etcd-name", "me", 0),
				"capture-address": output("capture-address", members("https://evil.example:2379"), 0)}},
		"a member of another name": {roles: onlyEtcd, init: true,
			outputs: map[string]plan.PeriodicInstructionOutput{"etcd-name": output("etcd-name", "you", 0),
				"capture-address": output("capture-address", members("https://10.5.5.5:2379"), 0)}},
		"garbage": {roles: onlyEtcd, init: true,
			outputs: map[string]plan.PeriodicInstructionOutput{"etcd-name": output("etcd-name", "me", 0),
				"capture-address": output("capture-address", "{", 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{
				Machine: &Machine{Plan: &PlanSecret{State: nodeplan.State{PeriodicOutput: tc.outputs}}},
				roles:   tc.roles, marks: Marks{InitNode: tc.init},
			}
			if tc.address != "" {
				m.Addresses = []Address{{Type: "InternalIP", Address: tc.address}}
			}
			if got := m.joinURL(9345); got != tc.want {
				t.Errorf("join URL is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	counts := map[int]int{}
	for i := range 3000 {
		n := spread(fmt.Sprintf("uid-%d", i), 3)
		if n < 0 || n > 2 {
			t.Fatalf("%d is not one of three", n)
		}
		counts[n]++
	}
	for n, count := range counts {
		if math.Abs(float64(count-1000)) > 150 {
			t.Errorf("server %d gets %d of 3000 workers", n, count)
		}
	}
	if spread("x", 1) != 0 {
		t.Error("one of one is the first")
	}
}

func TestDecide_WorkersKeepTheirServer(t *testing.T) {
	w := newWorld(rke2Version)
	w.add("s1", "etcd,control-plane")
	w.add("s2", "etcd,control-plane")
	w.add("w", "worker")
	w.bringUp(t)
	joined := w.machines["w"].m.Marks.JoinedTo
	w.add("s0", "etcd,control-plane")
	w.add("s3", "etcd,control-plane")
	w.bringUp(t)
	if got := w.machines["w"].m.Marks.JoinedTo; got != joined {
		t.Errorf("the worker moved from %s to %s", joined, got)
	}
}

// W6: servers whose addresses become known at the same time are noted in the same pass.
func TestDecide_JoinURLsAreNotedInOnePass(t *testing.T) {
	roles := map[string]string{}
	for _, name := range []string{"s1", "s2", "s3", "s4", "s5"} {
		roles[name] = allRoles
	}
	w := ready(t, roles)
	for _, h := range w.machines {
		h.m.Marks.JoinURL, h.joinURL = "", ""
	}
	d := w.pass(t)
	noted := 0
	for _, e := range d.Effects {
		if mark, ok := e.(MarkMachine); ok && mark.Marks.JoinURL != "" {
			noted++
		}
	}
	if noted != len(roles) {
		t.Errorf("%d join URLs of %d are noted in one pass: %+v", noted, len(roles), d.Effects)
	}
}
