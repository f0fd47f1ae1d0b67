package provisioningcluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/pkg/decide/conditions"
)

// TestOnChange_WaitsForTheKindsOfAProvider checks that nothing is made while the kind of another provider's template
// does not exist.
func TestOnChange_WaitsForTheKindsOfAProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fresh, func(w *world) {
		w.cluster.Spec.RKEConfig.MachinePools[0].NodeConfig = &corev1.ObjectReference{
			APIVersion: "infrastructure.cluster.x-k8s.io/v1beta2", Kind: "AWSMachineTemplate", Name: "a"}
	})
	handle := w.register()
	pass := func() {
		t.Helper()
		w.writes = nil
		if _, err := handle("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	made := conditions.Get(w.cluster.Status.Conditions, "RKECluster")
	if made == nil || made.Status != "False" || made.Reason != "InvalidSpec" ||
		!strings.Contains(made.Message, "AWSMachineTemplate") || w.cluster.Status.ClusterName != "" {
		t.Fatalf("condition %+v, writes %v", made, w.writes)
	}
	w.providers = map[string]bool{"AWSMachineTemplate.infrastructure.cluster.x-k8s.io": true}
	pass()
	if !conditions.IsTrue(w.cluster.Status.Conditions, "RKECluster") || len(w.applied) == 0 {
		t.Errorf("the provider is installed: %+v, writes %v", w.cluster.Status.Conditions, w.writes)
	}
}
