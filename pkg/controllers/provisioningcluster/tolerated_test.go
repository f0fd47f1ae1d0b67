package provisioningcluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// A new check refuses new clusters, but an older cluster is applied with a safe value, so that restores and scaling
// work, unless it was always invalid.
func TestOnChange_NewChecksDoNotStopClustersThatAreThere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit func(*provv1.Cluster)
		told string
	}{
		"most members may be deleted first": {func(c *provv1.Cluster) {
			c.Spec.RKEConfig.MachinePools[0].RollingUpdate = &provv1.RKEMachinePoolRollingUpdate{
				MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromInt32(1))}
		}, "rollingUpdate.maxUnavailable"},
		"a budget with both amounts": {func(c *provv1.Cluster) {
			c.Spec.ClusterAgentDeploymentCustomization = &provv1.AgentDeploymentCustomization{
				SchedulingCustomization: &provv1.AgentSchedulingCustomization{
					PodDisruptionBudget: &provv1.PodDisruptionBudgetSpec{MinAvailable: "1", MaxUnavailable: "1"},
				}}
		}, "podDisruptionBudget.maxUnavailable"},
		"a range that cannot be read": {func(c *provv1.Cluster) {
			pool := &c.Spec.RKEConfig.MachinePools[0]
			pool.UnhealthyNodeTimeout, pool.UnhealthyRange = &metav1.Duration{Duration: time.Minute}, new("[5-3]")
		}, "unhealthyRange"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(w *world) { tc.edit(w.cluster) })
			handle := w.register()
			if _, err := handle("", w.cluster.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if got := conditions.Get(w.cluster.Status.Conditions, "RKECluster"); got == nil ||
				got.Reason != "InvalidSpec" || len(w.applied) > 0 {
				t.Fatalf("a new cluster: condition %+v, %d objects", got, len(w.applied))
			}

			w.controlPlane = &rkev1.RKEControlPlane{}
			w.cluster.Spec.RKEConfig.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "snapshot-1"}
			w.cluster.Spec.RKEConfig.MachinePools[0].Quantity = new(int32(1))
			pass := func() *rkev1.GenericCondition {
				t.Helper()
				w.clock, w.writes, w.applied = w.clock.Add(time.Hour), nil, nil
				if _, err := handle("", w.cluster.DeepCopy()); err != nil {
					t.Fatal(err)
				}
				if got := conditions.Get(w.cluster.Status.Conditions, "RKECluster"); got == nil ||
					got.Status != "True" {
					t.Errorf("condition RKECluster %+v", got)
				}
				return conditions.Get(w.cluster.Status.Conditions, "ConfigurationUnderstood")
			}
			if got := pass(); got == nil || got.Status != "False" || got.Reason != "SafeValueUsed" ||
				!strings.Contains(got.Message, tc.told+": ") {
				t.Errorf("condition ConfigurationUnderstood %+v", got)
			}
			restored := false
			for _, object := range w.applied {
				switch o := object.(type) {
				case *rkev1.RKEControlPlane:
					restored = o.Spec.ETCDSnapshotRestore != nil && o.Spec.ETCDSnapshotRestore.Name == "snapshot-1"
				case *clusterv1.MachineDeployment:
					if surge := o.Spec.Rollout.Strategy.RollingUpdate.MaxSurge; surge.IntValue() != 1 {
						t.Errorf("%s more machines are made first", surge)
					}
				}
			}
			if !restored {
				t.Error("the restore is not asked for")
			}
			if pass(); slices.Contains(w.writes, "update cluster status") {
				t.Errorf("writes %v although nothing has changed", w.writes)
			}
			w.cluster.Spec.KubernetesVersion = "1.36"
			w.applied = nil
			if _, err := handle("", w.cluster.DeepCopy()); err != nil || len(w.applied) > 0 {
				t.Errorf("what was always wrong: error %v, %d objects", err, len(w.applied))
			}
		})
	}
}
