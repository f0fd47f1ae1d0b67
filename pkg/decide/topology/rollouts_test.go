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
		p.RollingUpdate = &provv1.RKEMachinePoolRollingUpdate{MaxSurge: new(intstr.Parse(surge)), MaxUnavailable: new(intstr.Parse(unavailable))}
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
		"as usual":                             {nothing, []provv1.RKEMachinePool{etcdPool("a", 1)}, nil},
		"the only one before there is another": {nothing, []provv1.RKEMachinePool{etcdPool("a", 1, rolled("0", "1"))}, []string{first("0")}},
		"no limit at all, which is one":        {nothing, []provv1.RKEMachinePool{etcdPool("a", 1, rolled("0", "0"))}, []string{first("0")}},
		"a share of none":                      {nothing, []provv1.RKEMachinePool{etcdPool("a", 1, rolled("0%", "25%"))}, []string{first("0")}},
		"the only one after another":           {nothing, []provv1.RKEMachinePool{etcdPool("a", 1, rolled("1", "0"))}, nil},
		"the only one while another comes":     {nothing, []provv1.RKEMachinePool{etcdPool("a", 1, rolled("1", "1"))}, []string{first("0")}},
		"a share of one, which is none":        {nothing, []provv1.RKEMachinePool{etcdPool("a", 1, rolled("1", "99%"))}, nil},
		"one of three":                         {nothing, []provv1.RKEMachinePool{etcdPool("a", 3, rolled("0", "1"))}, nil},
		"two of three":                         {nothing, []provv1.RKEMachinePool{etcdPool("a", 3, rolled("0", "2"))}, []string{first("0")}},
		"all of three":                         {nothing, []provv1.RKEMachinePool{etcdPool("a", 3, rolled("0", "100%"))}, []string{first("0")}},
		"one of three while another comes":     {nothing, []provv1.RKEMachinePool{etcdPool("a", 3, rolled("1", "1"))}, nil},
		"two of three while others come":       {nothing, []provv1.RKEMachinePool{etcdPool("a", 3, rolled("3", "2"))}, []string{first("0")}},
		"all of three while another comes":     {nothing, []provv1.RKEMachinePool{etcdPool("a", 3, rolled("1", "3"))}, []string{first("0")}},
		"all of three while a share comes":     {nothing, []provv1.RKEMachinePool{etcdPool("a", 3, rolled("10%", "100%"))}, []string{first("0")}},
		"all of three after others":            {nothing, []provv1.RKEMachinePool{etcdPool("a", 3, rolled("100%", "0"))}, nil},
		"a third of three":                     {nothing, []provv1.RKEMachinePool{etcdPool("a", 3, rolled("0", "34%"))}, nil},
		"one of each of three pools": {
			nothing, []provv1.RKEMachinePool{etcdPool("a", 1, rolled("0", "1")), etcdPool("b", 1, rolled("0", "1")), etcdPool("c", 1, rolled("0", "1"))},
			[]string{first("0"), first("1"), first("2")},
		},
		"a share beside one that registered": {registered(1), []provv1.RKEMachinePool{etcdPool("a", 3, rolled("1", "67%"))}, nil},
		"one of one beside two others":       {nothing, []provv1.RKEMachinePool{etcdPool("a", 1, rolled("0", "1")), etcdPool("b", 2)}, nil},
		"one beside two that registered":     {registered(2), []provv1.RKEMachinePool{etcdPool("a", 1, rolled("0", "1"))}, nil},
		"of a size that somebody else gives": {sized(3), []provv1.RKEMachinePool{etcdPool("a", 0, scaled, rolled("0", "1"))}, nil},
		"of a size that somebody else takes": {sized(1), []provv1.RKEMachinePool{etcdPool("a", 0, scaled, rolled("0", "1"))}, []string{first("0")}},
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
		"as usual":                      {etcdPool("a", 3), false},
		"others first":                  {etcdPool("a", 3, rolled("2", "0")), false},
		"one first":                     {etcdPool("a", 3, rolled("0", "1")), true},
		"no limit at all":               {etcdPool("a", 3, rolled("0", "0")), true},
		"one while another comes":       {etcdPool("a", 3, rolled("1", "1")), true},
		"a share":                       {etcdPool("a", 1, rolled("1", "34%")), true},
		"workers, of which nobody asks": {etcdPool("a", 3, asWorkers, rolled("0", "1")), false},
	} {
		in := demo(t, func(c *provv1.Cluster) { *pool(c, 0) = tc.pool })
		if got := topology.DeletesFirst(in.Cluster); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
