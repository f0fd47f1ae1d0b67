package topology_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// rolled sets maxSurge and maxUnavailable.
func rolled(surge, unavailable string) func(*provv1.RKEMachinePool) {
	return func(p *provv1.RKEMachinePool) {
		p.RollingUpdate = &provv1.RKEMachinePoolRollingUpdate{MaxSurge: new(intstr.Parse(surge)),
			MaxUnavailable: new(intstr.Parse(unavailable))}
	}
}

// TestValidate_RollOutsKeepMembers checks that most members stay until others have replaced them, when one edit
// replaces all machines with etcd.
func TestValidate_RollOutsKeepMembers(t *testing.T) {
	t.Parallel()
	first := func(i string) string { return "spec.rkeConfig.machinePools[" + i + "].rollingUpdate.maxUnavailable" }
	registered := func(number int) func(*topology.Input) {
		return func(in *topology.Input) {
			in.Registered.Etcd, in.RegisteredMembers = number > 0, number
		}
	}
	sized := func(number int32) func(*topology.Input) {
		return func(in *topology.Input) { in.Replicas = map[string]int32{"demo-a": number} }
	}
	nothing := func(*topology.Input) {}
	for name, tc := range map[string]struct {
		running func(*topology.Input)
		pools   []provv1.RKEMachinePool
		want    []string
	}{
		"the default": {nothing, []provv1.RKEMachinePool{etcdPool("a", 1)}, nil},
		"the only member, before its replacement": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 1, rolled("0", "1"))}, []string{first("0")}},
		"no limit, which means one": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 1, rolled("0", "0"))}, []string{first("0")}},
		"a share that rounds to none": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 1, rolled("0%", "25%"))}, []string{first("0")}},
		"the only member, after its replacement": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 1, rolled("1", "0"))}, nil},
		"the only member, during its replacement": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 1, rolled("1", "1"))}, []string{first("0")}},
		"a share of one, which rounds to none": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 1, rolled("1", "99%"))}, nil},
		"one of three": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 3, rolled("0", "1"))}, nil},
		"two of three": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 3, rolled("0", "2"))}, []string{first("0")}},
		"three healthy members": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 3, rolled("0", "100%"))}, []string{first("0")}},
		"one of three during a surge of one": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 3, rolled("1", "1"))}, nil},
		"two of three during a surge": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 3, rolled("3", "2"))}, []string{first("0")}},
		"three of three during a surge of one": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 3, rolled("1", "3"))}, []string{first("0")}},
		"three of three during a surge of a share": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 3, rolled("10%", "100%"))}, []string{first("0")}},
		"three of three, after their replacements": {nothing,
			[]provv1.RKEMachinePool{etcdPool("a", 3, rolled("100%", "0"))}, nil},
		"a third of three": {nothing, []provv1.RKEMachinePool{etcdPool("a", 3, rolled("0", "34%"))}, nil},
		"one of each of three pools": {
			nothing, []provv1.RKEMachinePool{etcdPool("a", 1, rolled("0", "1")), etcdPool("b", 1, rolled("0", "1")),
				etcdPool("c", 1, rolled("0", "1"))},
			[]string{first("0"), first("1"), first("2")},
		},
		"a share, with a registered member": {registered(1),
			[]provv1.RKEMachinePool{etcdPool("a", 3, rolled("1", "67%"))}, nil},
		"one of one, with two other pools": {nothing, []provv1.RKEMachinePool{etcdPool("a", 1, rolled("0", "1")),
			etcdPool("b", 2)}, nil},
		"one, with two registered members": {registered(2), []provv1.RKEMachinePool{etcdPool("a", 1, rolled("0", "1"))},
			nil},
		"an external size": {sized(3), []provv1.RKEMachinePool{etcdPool("a", 0, scaled, rolled("0", "1"))}, nil},
		"an external size of 0": {sized(1), []provv1.RKEMachinePool{etcdPool("a", 0, scaled, rolled("0", "1"))},
			[]string{first("0")}},
		"all workers": {
			nothing, []provv1.RKEMachinePool{etcdPool("a", 3), etcdPool("w", 3, asWorkers, rolled("0", "100%"))}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := demo(t, func(c *provv1.Cluster) {
				config := pool(c, 0).NodeConfig
				c.Spec.RKEConfig.MachinePools = tc.pools
				for i := range tc.pools {
					pool(c, i).NodeConfig = config
				}
			})
			tc.running(&in)
			var got []string
			for _, err := range topology.Validate(in) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeletesFirst checks that the number of other members matters wherever machines may be deleted first, even if only
// by a share of several machines.
func TestDeletesFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pool provv1.RKEMachinePool
		want bool
	}{
		"the default":                 {etcdPool("a", 3), false},
		"replacements first":          {etcdPool("a", 3, rolled("2", "0")), false},
		"one deletion first":          {etcdPool("a", 3, rolled("0", "1")), true},
		"no limit":                    {etcdPool("a", 3, rolled("0", "0")), true},
		"one deletion during a surge": {etcdPool("a", 3, rolled("1", "1")), true},
		"a share":                     {etcdPool("a", 1, rolled("1", "34%")), true},
		"workers":                     {etcdPool("a", 3, asWorkers, rolled("0", "1")), false},
	} {
		in := demo(t, func(c *provv1.Cluster) { *pool(c, 0) = tc.pool })
		if got := topology.DeletesFirst(in.Cluster); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
