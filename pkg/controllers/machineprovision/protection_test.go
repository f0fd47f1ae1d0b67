package machineprovision_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// A host of a protected cluster that is deleted in spite of the admission policies stays as long as its Machine and the
// protection.
func TestStory_HostOfAProtectedClusterStays(t *testing.T) {
	for name, ends := range map[string]func(w *world, cluster *provv1.Cluster){
		"until the protection ends": func(w *world, cluster *provv1.Cluster) {
			cluster = cluster.DeepCopy()
			delete(cluster.Annotations, rkev1.ProtectAnnotation)
			_, err := w.c.Provisioning.Cluster().Update(cluster)
			must(w.T, err)
		},
		"until its Machine goes": func(w *world, _ *provv1.Cluster) {
			must(w.T, w.c.CAPI.Machine().Delete(namespace, "m1", nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				cluster, err := w.c.Provisioning.Cluster().Create(&provv1.Cluster{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: "demo", Annotations: map[string]string{rkev1.InstanceAnnotation: "ours",
						rkev1.ProtectAnnotation: "true"},
				}, Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.2+k3s1", RKEConfig: &provv1.RKEConfig{}}})
				must(w.T, err)
				w.run()
				w.addMachine("m1", false)
				w.run()
				must(w.T, w.infra.Delete(w.Context(), "m1", metav1.DeleteOptions{}))
				w.run()
				w.sleep(10 * time.Minute)
				ready := conditions.Get(w.status("m1").Conditions, rkev1.ConditionReady)
				if w.removed["m1"] != 0 || ready == nil || ready.Reason != "Protected" {
					w.Fatalf("removed %d times, Ready %+v", w.removed["m1"], ready)
				}
				ends(w, cluster)
				w.run()
				if w.removed["m1"] != 1 {
					w.Errorf("removed %d times in the end", w.removed["m1"])
				}
			})
		})
	}
}
