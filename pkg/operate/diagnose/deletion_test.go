package diagnose

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// removed is a cluster whose deletion began an hour ago. The host of its worker cannot be removed.
func removed() World {
	w := healthy()
	since := new(at(noon.Add(-time.Hour)))
	w.Cluster.DeletionTimestamp, w.Cluster.Finalizers = since, []string{provv1.RKEClusterFinalizer}
	w.Core.DeletionTimestamp, w.Core.Finalizers = since, []string{clusterv1.ClusterFinalizer}
	m := w.of("w-1")
	m.DeletionTimestamp, m.Finalizers = since, []string{clusterv1.MachineFinalizer}
	m.Host.DeletionTimestamp, m.Host.Finalizers = since, []string{rkev1.MachineProvisionFinalizer}
	m.Host.Status.Conditions = []rkev1.GenericCondition{condition("Ready", "False", "DeleteError",
		"Removing the host failed: the cloud answers 403")}
	return w
}

func TestDiagnose_StuckRemovalNamesTheFinalizers(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *World)
		link   Name
		object string
		state  State
		says   string
	}{
		"a host that cannot be removed": {func(*World) {}, LinkHost, "SimMachine fleet-default/w-1", Broken,
			"cannot be removed"},
		"a host that is being removed": {func(w *World) {
			w.of("w-1").Host.Status.Conditions = nil
			w.of("w-1").Host.DeletionTimestamp = new(at(noon.Add(-time.Minute)))
		}, LinkHost, "SimMachine fleet-default/w-1", Waiting, "is being removed"},
		"a member that has not left etcd": {func(w *World) {
			w.of("w-1").Annotations = map[string]string{rkev1.PreTerminateAnnotation: "x"}
		}, LinkMachine, "Machine fleet-default/w-1", Broken, "etcd member"},
		"a Machine without a host": {func(w *World) { w.of("w-1").Host = nil }, LinkDeletion,
			"Machine fleet-default/w-1", Broken, "Cluster API's core"},
		"a registered host": {func(w *World) {
			w.of("w-1").Host.Driven, w.of("w-1").Host.Kind = false, "CustomMachine"
			w.of("w-1").Host.Finalizers = []string{rkev1.UnmanagedMachineFinalizer, "example.com/guard"}
		}, LinkHost, "SimMachine fleet-default/w-1", Broken,
			rkev1.UnmanagedMachineFinalizer + " (Drover (unmanaged), when the host is cleaned or cannot be); " +
				"example.com/guard (another program, which has set it for example.com and must remove it"},
		"the management Cluster": {func(w *World) {
			w.Machines, w.Management.DeletionTimestamp = nil, w.Cluster.DeletionTimestamp
			w.Management.Finalizers = []string{mgmtv3.ManagementClusterFinalizer}
		}, LinkDeletion, trunk, Broken, "has " + mgmtv3.ManagementClusterFinalizer + " (Drover (provisioningcluster)"},
		"a finalizer of another program": {func(w *World) {
			w.Machines, w.Cluster.Finalizers = nil, append(w.Cluster.Finalizers, "example.com/guard")
		}, LinkDeletion, trunk, Broken, "example.com/guard (another program"},
		"the remaining objects": {func(w *World) {
			w.Machines, w.Cluster.DeletionTimestamp = nil, new(at(noon.Add(-time.Minute)))
		}, LinkDeletion, trunk, Waiting, "CAPI Cluster fleet-default/demo has " + clusterv1.ClusterFinalizer},
		"a pause": {func(w *World) { w.Core.Spec.Paused = new(true) }, LinkPause, "CAPI Cluster fleet-default/demo",
			Broken, "paused"},
	} {
		t.Run(name, func(t *testing.T) {
			w := removed()
			tc.change(&w)
			r := Diagnose(w)
			if len(r.Findings) != 1 {
				t.Fatalf("the findings are %+v", r.Findings)
			}
			l := r.Findings[0].Link
			if l.Name != tc.link || l.Object != tc.object || l.State != tc.state || !strings.Contains(l.What, tc.says) {
				t.Errorf("got %+v", l)
			}
		})
	}
}

// A held etcd member's link says what it waits for and what a user can do. It warns about data loss with the last
// remedy.
func TestDiagnose_HeldMemberSaysWhy(t *testing.T) {
	w := removed()
	m := w.of("w-1")
	m.Annotations = map[string]string{rkev1.PreTerminateAnnotation: "x"}
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
		Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue, Reason: "WaitingForPreTerminateHook",
		Message: "the hook exists",
	})
	m.Bootstrap.Status.Conditions = append(m.Bootstrap.Status.Conditions, metav1.Condition{
		Type: rkev1.ConditionEtcdMemberLeft, Status: metav1.ConditionFalse, Reason: "EtcdMemberHeld",
		Message: "no other healthy etcd member",
	})
	r := Diagnose(w)
	if len(r.Findings) != 1 {
		t.Fatalf("the findings are %+v", r.Findings)
	}
	l := r.Findings[0].Link
	if l.Reason != "EtcdMemberHeld" || l.Why != "no other healthy etcd member" ||
		!strings.Contains(strings.Join(l.Do, "\n"), "its data are lost") {
		t.Errorf("got %+v", l)
	}
}

func TestHeld_KnowsAllFinalizersOfDrover(t *testing.T) {
	for _, finalizer := range []string{
		provv1.RKEClusterFinalizer, provv1.ProvisioningClusterFinalizer, rkev1.PlanControlPlaneFinalizer,
		rkev1.BootstrapEtcdRemovalFinalizer,
		rkev1.UnmanagedMachineFinalizer, rkev1.MachineProvisionFinalizer, metav1.FinalizerDeleteDependents,
	} {
		if strings.Contains(held([]string{finalizer}), "another program") {
			t.Errorf("finalizer %s has no owner", finalizer)
		}
	}
}
