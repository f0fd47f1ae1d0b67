package topology_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// TestValidate_Servers checks that a cluster needs etcd and a control plane, from its pools or from registered
// machines.
func TestValidate_Servers(t *testing.T) {
	t.Parallel()
	type servers = topology.Servers
	roles := func(etcd, controlPlane, worker bool) func(*provv1.Cluster) {
		return func(c *provv1.Cluster) {
			pool(c, 0).EtcdRole, pool(c, 0).ControlPlaneRole, pool(c, 0).WorkerRole = etcd, controlPlane, worker
		}
	}
	split := func(c *provv1.Cluster) {
		second := *pool(c, 0).DeepCopy()
		second.Name, second.EtcdRole = "second", false
		pool(c, 0).ControlPlaneRole = false
		c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, second)
	}
	for name, tc := range map[string]struct {
		edit       func(*provv1.Cluster)
		registered servers
		wantErrors int
	}{
		"all roles in one pool":                   {edit: roles(true, true, true)},
		"a missing worker is left to the planner": {edit: roles(true, true, false)},
		"one pool per role":                       {edit: split},
		"an external size":                        {edit: func(c *provv1.Cluster) { pool(c, 0).Quantity = nil }},
		"no pools: machines register themselves": {edit: func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools = nil
		}},
		"only workers": {edit: roles(false, false, true), wantErrors: 2},
		"an empty list of pools": {edit: func(c *provv1.Cluster) { pool(c, 0).Quantity = new(int32) },
			wantErrors: 2},
		"workers with registered servers": {edit: roles(false, false, true),
			registered: servers{Etcd: true, ControlPlane: true}},
		"a registered server without etcd": {edit: roles(false, false, true), registered: servers{ControlPlane: true},
			wantErrors: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := demo(t, tc.edit)
			in.Registered = tc.registered
			errs := topology.Validate(in)
			if diff := cmp.Diff(tc.wantErrors, len(errs)); diff != "" {
				t.Errorf("errors (-want +got):\n%s\n%s", diff, topology.Explain(errs))
			}
		})
	}
}
