package topology_test

import (
	"testing"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// TestManagementCluster_OmitsBookkeeping checks that notes about the Cluster are not copied. A copied
// protection would block the end of a Cluster that is no longer protected.
func TestManagementCluster_OmitsBookkeeping(t *testing.T) {
	t.Parallel()
	in := demo(t, func(c *provv1.Cluster) {
		c.Annotations = map[string]string{
			"example.org/team": "a", rkev1.ProtectAnnotation: "true", rkev1.GrantsAnnotation: "{}",
			rkev1.NotedAnnotation: "uid/1", "kubectl.kubernetes.io/last-applied-configuration": "{}",
		}
	})
	got := topology.ManagementCluster(in.Cluster, topology.Registry{}).Annotations
	for key, want := range map[string]string{
		"example.org/team": "a", rkev1.ProtectAnnotation: "", rkev1.GrantsAnnotation: "", rkev1.NotedAnnotation: "",
		"kubectl.kubernetes.io/last-applied-configuration": "",
	} {
		if got[key] != want {
			t.Errorf("annotation %s is %q, want %q", key, got[key], want)
		}
	}
}

// TestManagement_TokenOfAnImportedCluster checks that an imported cluster's token is for its agent, because hosts
// cannot join the cluster.
func TestManagement_TokenOfAnImportedCluster(t *testing.T) {
	t.Parallel()
	in := demo(t, func(c *provv1.Cluster) { c.Spec.RKEConfig = nil })
	tokens := find[*mgmtv3.ClusterRegistrationToken](t, topology.Management(in.Cluster, topology.Registry{}))
	if len(tokens) != 1 || tokens[0].Name != "default-token" ||
		tokens[0].Labels[mgmtv3.TokenPurposeLabel] != mgmtv3.TokenPurposeAgent {
		t.Errorf("tokens %+v", tokens)
	}
}
