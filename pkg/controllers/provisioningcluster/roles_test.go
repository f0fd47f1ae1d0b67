package provisioningcluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// Machines keep their server roles, however their pool is edited, and a pool without machines can change.
func TestOnChange_MachinesKeepTheirRoles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wanted, there int32
		had, refused  string
	}{
		"a pool with machines": {wanted: 3, there: 3, had: rkev1.EtcdRoleLabel,
			refused: "etcdRole"},
		"a pool whose machines still go":           {there: 1, had: rkev1.EtcdRoleLabel, refused: "etcdRole"},
		"a pool whose machines are all gone":       {had: rkev1.EtcdRoleLabel},
		"a pool of workers that becomes a server":  {wanted: 3, there: 3, refused: "controlPlaneRole"},
		"a pool of workers without machines (yet)": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(w *world) {
				had := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "demo-pool1"}}
				had.Spec.Replicas, had.Status.Replicas = &tc.wanted, &tc.there
				had.Spec.Template.Labels = map[string]string{tc.had: "true"}
				w.deployments = []*clusterv1.MachineDeployment{had}
				config := w.cluster.Spec.RKEConfig
				other := *config.MachinePools[0].DeepCopy()
				other.Name, config.MachinePools[0].EtcdRole = "other", false
				config.MachinePools = append(config.MachinePools, other)
			})
			cache := fake.NewMockCacheInterface[*provv1.Cluster](gomock.NewController(t))
			cache.EXPECT().Get(gomock.Any(), "demo").Return(w.cluster, nil).AnyTimes()
			w.deployments[0].Spec.ClusterName = "demo"
			h := &handler{clusters: cache}
			if woken := h.ofMachineDeployment(w.deployments[0]); len(woken) != 1 {
				t.Errorf("what becomes of the machines wakes %v", woken)
			}
			_, err := w.register()("", w.cluster.DeepCopy())
			condition := conditions.Get(w.cluster.Status.Conditions, "RKECluster")
			if got := fmt.Sprint(err, condition); strings.Contains(got, "Forbidden") != (tc.refused != "") ||
				!strings.Contains(got, tc.refused) {
				t.Errorf("error %v, condition %+v", err, condition)
			}
			if (tc.refused != "") != (len(w.applied) == 0) {
				t.Errorf("%d objects were applied", len(w.applied))
			}
		})
	}
}
