package provisioningcluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
)

// The machines of a pool that gets another template are counted once, after the write, whatever the caches show.
func TestOnChange_CountsWhomItReplaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		replicas := int32(3)
		old := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default",
			Name: "demo-pool1", UID: "md"}}
		old.Spec.Replicas = &replicas
		old.Spec.Template.Labels = map[string]string{rkev1.EtcdRoleLabel: "true", rkev1.ControlPlaneRoleLabel: "true"}
		old.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: "rke-machine.cattle.io", Kind: "PodMachineTemplate", Name: "demo-pool1-old"}
		w.deployments = []*clusterv1.MachineDeployment{old}
	})
	handle := w.register()
	pass := func() int {
		t.Helper()
		if _, err := handle("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		counts, err := disruptions.Gathered(w.metrics)
		if err != nil {
			t.Fatal(err)
		}
		if problem := counts.Problem(); problem != "" {
			t.Error(problem)
		}
		return counts[disruption.EditPool]
	}
	if got := pass(); got != 0 {
		t.Errorf("nothing was written, and %d are counted", got)
	}
	w.updated = []string{"machinedeployments fleet-default/demo-pool1"}
	if got := pass(); got != 3 {
		t.Errorf("%d are counted, want 3", got)
	}
	if got := pass(); got != 3 {
		t.Errorf("%d are counted after another pass over an old cache, want 3", got)
	}
}
