package topology_test

import (
	"strings"
	"testing"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// TestValidate_MachinesKeepTheirRoles checks that machines keep their server roles, and that only the worker role can
// change.
func TestValidate_MachinesKeepTheirRoles(t *testing.T) {
	t.Parallel()
	const (
		etcd         = "spec.rkeConfig.machinePools[0].etcdRole: Forbidden: "
		controlPlane = "spec.rkeConfig.machinePools[0].controlPlaneRole: Forbidden: "
	)
	for name, tc := range map[string]struct {
		had, wanted string
		gone        bool
		want        []string
	}{
		"unchanged roles": {had: "ec", wanted: "ec"},
		"worker added":    {had: "ec", wanted: "ecw"},
		"worker removed":  {had: "ec", wanted: "ec"},
		"etcd removed": {had: "ec", wanted: "c",
			want: []string{etcd + "machines of the pool are etcd members"}},
		"etcd and control plane removed": {had: "ec", wanted: "w", want: []string{etcd, controlPlane}},
		"control plane removed": {had: "c", wanted: "w",
			want: []string{controlPlane + "machines of the pool serve the cluster's API"}},
		"workers become members": {had: "", wanted: "ew",
			want: []string{etcd + "existing machines of the pool cannot become etcd members"}},
		"workers become servers": {had: "", wanted: "cw",
			want: []string{controlPlane + "existing machines of the pool cannot get this role"}},
		"members become servers": {had: "e", wanted: "ec",
			want: []string{controlPlane + "existing machines of the pool cannot get this role"}},
		"there are no machines (yet)": {had: "e", wanted: "w", gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := demo(t, func(c *provv1.Cluster) {
				servers := *pool(c, 0).DeepCopy()
				servers.Name = "servers"
				c.Spec.RKEConfig.MachinePools = append(c.Spec.RKEConfig.MachinePools, servers)
				edited := pool(c, 0)
				edited.EtcdRole, edited.ControlPlaneRole = strings.Contains(tc.wanted, "e"),
					strings.Contains(tc.wanted, "c")
				edited.WorkerRole = strings.Contains(tc.wanted, "w")
			})
			if !tc.gone {
				in.Roles = map[string]topology.Servers{"demo-pool1": {Etcd: strings.Contains(tc.had, "e"),
					ControlPlane: strings.Contains(tc.had, "c")}}
			}
			errs := topology.Validate(in)
			if len(errs) != len(tc.want) {
				t.Fatalf("errors %s, want %d", topology.Explain(errs), len(tc.want))
			}
			for i, want := range tc.want {
				if got := errs[i].Error(); !strings.HasPrefix(got, want) || !strings.Contains(got, "add another pool") {
					t.Errorf("error %q, want %q", got, want)
				}
			}
		})
	}
}
