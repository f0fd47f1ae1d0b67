package planner_test

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// A deleted last etcd machine without a hold is released, because no server could remove it from etcd, and Cluster API
// learns that the API is gone.
func TestStory_LostServersAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const initialized = clusterv1.ClusterControlPlaneInitializedCondition
		s := newStory(t, "v1.36.2+k3s1", map[string]string{"a": "etcd,control-plane,worker"})
		stop := s.startManager()
		defer stop()
		s.untilReady()
		owner, err := s.world.CAPI.Cluster().Get(namespace, cluster, metav1.GetOptions{})
		must(t, err)
		conditions.SetMeta(&owner.Status.Conditions, conditions.Condition{Type: initialized, Status: "True",
			Reason: "Initialized"}, 1, time.Now())
		owner.Status.Initialization.ControlPlaneInitialized = new(true)
		_, err = s.world.CAPI.Cluster().UpdateStatus(owner)
		must(t, err)

		machine, err := s.world.CAPI.Machine().Get(namespace, "a", metav1.GetOptions{})
		must(t, err)
		machine.Finalizers = []string{"machine.cluster.x-k8s.io"}
		_, err = s.world.CAPI.Machine().Update(machine)
		must(t, err)
		must(t, s.world.CAPI.Machine().Delete(namespace, "a", nil))
		s.elapse(time.Minute)

		machine, err = s.world.CAPI.Machine().Get(namespace, "a", metav1.GetOptions{})
		must(t, err)
		bootstrap, err := s.world.RKE.RKEBootstrap().Get(namespace, "a-boot", metav1.GetOptions{})
		must(t, err)
		for annotation, there := range map[string]bool{
			clusterv1.ExcludeNodeDrainingAnnotation:            machine.Annotations[clusterv1.ExcludeNodeDrainingAnnotation] == "true",
			clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation: machine.Annotations[clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation] == "true",
			rkev1.ForceRemoveEtcdAnnotation:                    bootstrap.Annotations[rkev1.ForceRemoveEtcdAnnotation] == "true",
		} {
			if !there {
				t.Errorf("the annotation %s is missing", annotation)
			}
		}
		owner, err = s.world.CAPI.Cluster().Get(namespace, cluster, metav1.GetOptions{})
		must(t, err)
		if conditions.IsTrueMeta(owner.Status.Conditions, initialized) {
			t.Error("the CAPI Cluster still counts as initialized")
		}
	})
}
