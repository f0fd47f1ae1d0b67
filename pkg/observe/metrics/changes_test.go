package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// changed returns the metrics of changes.
func (w *world) changed() map[string]float64 {
	w.Helper()
	out := w.read()
	for _, gauge := range []string{"leader", "clusters ready", "clusters waiting", "clusters_without_snapshot",
		"machines running"} {
		delete(out, gauge)
	}
	return out
}

// A cluster is observed when it is ready for the first time, with the times in its objects.
func TestChanges_StagesOfACluster(t *testing.T) {
	w := newWorld(t)
	cluster, after := w.add("demo")
	stop := w.lead()
	defer stop()
	cluster.CreationTimestamp = metav1.NewTime(noon)
	after.CreationTimestamp = metav1.NewTime(noon.Add(2 * time.Second))
	after.Status.Conditions = nil
	for i, kind := range []string{rkev1.ConditionProvisioned, rkev1.ConditionBootstrapped, rkev1.ConditionReady} {
		conditions.Set(&after.Status.Conditions, conditions.Condition{Type: kind, Status: "True"},
			noon.Add(time.Duration(i+1)*time.Minute))
	}
	before := after.DeepCopy()
	before.Status.AppliedSpec = nil
	w.fleet.ControlPlaneChanged(before, after)
	w.fleet.ControlPlaneChanged(after, after.DeepCopy()) // and never again
	want := map[string]float64{
		"cluster_ready_duration_seconds": 1, "cluster_ready_duration_seconds/sum": 180,
		"cluster_stage_duration_seconds objects": 1, "cluster_stage_duration_seconds objects/sum": 2,
		"cluster_stage_duration_seconds machines": 1, "cluster_stage_duration_seconds machines/sum": 58,
		"cluster_stage_duration_seconds bootstrap": 1, "cluster_stage_duration_seconds bootstrap/sum": 60,
		"cluster_stage_duration_seconds join": 1, "cluster_stage_duration_seconds join/sum": 60,
	}
	if diff := cmp.Diff(want, w.changed()); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestChanges_StagesOfAMachineAndPlan(t *testing.T) {
	w := newWorld(t)
	w.add("demo", "a")
	stop := w.lead()
	defer stop()
	after := w.machines[0]
	before := after.DeepCopy()
	before.Status.NodeRef.Name = ""
	w.fleet.MachineChanged(before, after)
	w.fleet.MachineChanged(after, after)
	plan := w.secrets["fleet-default/"+planOf(w)].DeepCopy()
	delivered := plan.DeepCopy()
	delivered.Annotations = map[string]string{rkev1.PlanUpdatedTimeAnnotation: noon.Add(-time.Minute).Format(
		time.RFC3339)}
	passed := delivered.DeepCopy()
	passed.Annotations[rkev1.PlanProbesPassedAnnotation] = noon.Format(time.RFC3339)
	w.fleet.PlanChanged(plan, delivered)
	w.fleet.PlanChanged(delivered, passed)
	w.fleet.PlanChanged(passed, passed)
	want := map[string]float64{
		"machine_stage_duration_seconds infrastructure": 1, "machine_stage_duration_seconds infrastructure/sum": 3600,
		"machine_stage_duration_seconds node": 1, "machine_stage_duration_seconds node/sum": 3600,
		"plan_duration_seconds": 1, "plan_duration_seconds/sum": 60, "agents unknown": 1,
	}
	if diff := cmp.Diff(want, w.changed()); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func planOf(w *world) string {
	for _, secret := range w.secrets {
		return secret.Name
	}
	return ""
}

// A failure counts when it appears, and not while it lasts.
func TestChanges_Failures(t *testing.T) {
	failed := func(list *[]rkev1.GenericCondition, kind, reason string) {
		conditions.Set(list, conditions.Condition{Type: kind, Status: "False", Reason: reason}, noon)
	}
	for name, tc := range map[string]struct {
		happen func(w *world)
		want   string
	}{
		"an invalid manifest": {want: "InvalidSpec", happen: func(w *world) {
			before := w.clusters[0].DeepCopy()
			failed(&w.clusters[0].Status.Conditions, provv1.ConditionRKECluster, "InvalidSpec")
			w.fleet.ClusterChanged(before, w.clusters[0])
			w.fleet.ClusterChanged(w.clusters[0], w.clusters[0].DeepCopy())
		}},
		"the planner gave up": {want: "RenderFailed", happen: func(w *world) {
			before := w.planes[0].DeepCopy()
			w.fleet.Reasons.Note("fleet-default/demo", &planner.Wait{Reason: planner.ReasonRenderFailed, Failed: true})
			failed(&w.planes[0].Status.Conditions, rkev1.ConditionReady, "Error")
			w.fleet.ControlPlaneChanged(before, w.planes[0])
			w.fleet.ControlPlaneChanged(w.planes[0], w.planes[0].DeepCopy())
		}},
		"a failed write has no reason of the planner": {want: "Error", happen: func(w *world) {
			before := w.planes[0].DeepCopy()
			w.fleet.Reasons.Note("fleet-default/demo", &planner.Wait{Reason: planner.ReasonConfiguring})
			failed(&w.planes[0].Status.Conditions, rkev1.ConditionReady, "Error")
			w.fleet.ControlPlaneChanged(before, w.planes[0])
		}},
		"a snapshot": {want: "SnapshotFailed", happen: func(w *world) {
			before := w.planes[0].DeepCopy()
			failed(&w.planes[0].Status.Conditions, planner.ConditionSnapshotCreated, "Error")
			w.fleet.ControlPlaneChanged(before, w.planes[0])
		}},
		"a cancelled rotation is not a failure": {happen: func(w *world) {
			before := w.planes[0].DeepCopy()
			failed(&w.planes[0].Status.Conditions, planner.ConditionKeysRotated, planner.ReasonCancelled)
			w.fleet.ControlPlaneChanged(before, w.planes[0])
		}},
		"a plan": {want: "PlanFailed", happen: func(w *world) {
			before := w.machines[0].DeepCopy()
			conditions.SetMeta(&w.machines[0].Status.Conditions, conditions.Condition{Type: rkev1.ConditionPlanApplied,
				Status: "False", Reason: "Error"}, 1, noon)
			w.fleet.MachineChanged(before, w.machines[0])
			w.fleet.MachineChanged(w.machines[0], w.machines[0])
		}},
		"a machine whose creation failed": {want: "CreateError", happen: func(w *world) {
			before, after := infrastructure(nil), infrastructure(map[string]any{"failureReason": "CreateError"})
			w.fleet.InfrastructureChanged(before, after)
			w.fleet.InfrastructureChanged(after, after)
		}},
		"a machine without a credential": {want: "CredentialMissing", happen: func(w *world) {
			ready := map[string]any{"type": "Ready", "status": "False", "reason": "CredentialMissing"}
			w.fleet.InfrastructureChanged(infrastructure(nil),
				infrastructure(map[string]any{"conditions": []any{ready}}))
		}},
		"a machine during its creation has not failed": {happen: func(w *world) {
			ready := map[string]any{"type": "Ready", "status": "False", "reason": "Creating"}
			w.fleet.InfrastructureChanged(infrastructure(nil),
				infrastructure(map[string]any{"conditions": []any{ready}}))
		}},
		"of another manager": {happen: func(w *world) {
			before := w.clusters[0].DeepCopy()
			delete(w.clusters[0].Annotations, rkev1.InstanceAnnotation)
			failed(&w.clusters[0].Status.Conditions, provv1.ConditionRKECluster, "InvalidSpec")
			w.fleet.ClusterChanged(before, w.clusters[0])
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.add("demo", "a")
			stop := w.lead()
			tc.happen(w)
			stop()
			want := map[string]float64{}
			if tc.want != "" {
				want["failures_total "+tc.want] = 1
			}
			if diff := cmp.Diff(want, w.read()); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

func infrastructure(status map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetNamespace("fleet-default")
	u.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "demo"})
	return u
}
