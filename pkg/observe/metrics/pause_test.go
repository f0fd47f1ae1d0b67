package metrics

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// paused returns a cluster with five machines. They have no host, have no node, fail, are being deleted, and run.
func paused(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.add("demo", "creating", "joining", "failed", "deleting", "running")
	w.cores = []*clusterv1.Cluster{{ObjectMeta: metav1.ObjectMeta{Namespace: w.clusters[0].Namespace, Name: "demo"}}}
	w.machines[0].Status.Conditions, w.machines[0].Status.NodeRef.Name = nil, ""
	w.machines[1].Status.NodeRef.Name, w.machines[2].Status.NodeRef.Name = "", ""
	conditions.SetMeta(&w.machines[2].Status.Conditions,
		conditions.Condition{Type: "InfrastructureReady", Status: "False", Reason: "CreateError"}, 1, noon)
	w.machines[3].DeletionTimestamp = new(metav1.NewTime(noon.Add(-time.Hour)))
	for _, machine := range w.machines {
		machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "Host", Name: machine.Name}
		machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{Kind: "RKEBootstrap",
			Name: machine.Name}
	}
	return w
}

// An object that a pause holds is reported as paused instead of stuck. Objects that the pause does not hold are
// reported as before.
func TestPauses(t *testing.T) {
	mark := map[string]string{clusterv1.PausedAnnotation: "true"}
	all := func(w *world, kind string) {
		w.annotations = map[string]map[string]string{}
		for _, machine := range w.machines {
			w.annotations[kind+" "+machine.Name] = mark
		}
	}
	none := map[string]float64{"InfrastructureNotReady": 1, "NodeMissing": 1, "CreateError": 1, "Deleting": 1}
	every := map[string]float64{"Paused": 3, "CreateError": 1}
	for name, tc := range map[string]struct {
		given func(w *world)
		want  map[string]float64
	}{
		"nothing is paused":                    {want: none, given: func(*world) {}},
		"Cluster API's Cluster does not exist": {want: none, given: func(w *world) { w.cores = nil }},
		"the cluster": {want: every, given: func(w *world) {
			w.cores[0].Spec.Paused = new(true)
		}},
		"an operation, which ends and does not stop removals": {want: none, given: func(w *world) {
			w.cores[0].Spec.Paused, w.cores[0].Annotations = new(true),
				map[string]string{rkev1.PausedByOperationAnnotation: "etcd-restore"}
		}},
		"only Cluster API's Cluster, by annotation, which machines ignore": {want: none, given: func(w *world) {
			w.cores[0].Annotations = mark
		}},
		"another cluster with the same name": {want: none, given: func(w *world) {
			w.cores[0].Namespace, w.cores[0].Spec.Paused = "elsewhere", new(true)
		}},
		"the pool, whose machines are still created and removed": {want: none, given: func(w *world) {
			w.clusters[0].Spec.RKEConfig.MachinePools = []provv1.RKEMachinePool{{Name: "pool", Paused: true}}
			for _, machine := range w.machines {
				machine.Labels[rkev1.MachinePoolNameLabel] = "pool"
			}
		}},
		"Machines, by annotation": {want: every, given: func(w *world) {
			for _, machine := range w.machines {
				machine.Annotations = mark
			}
		}},
		"hosts, which do not block a machine with a host": {given: func(w *world) { all(w, "Host") },
			want: map[string]float64{
				"Paused": 2, "NodeMissing": 1, "CreateError": 1,
			}},
		"RKEBootstraps, which do not block a removal": {given: func(w *world) { all(w, "RKEBootstrap") },
			want: map[string]float64{
				"Paused": 2, "CreateError": 1, "Deleting": 1,
			}},
		"the RKEControlPlane: no plans are delivered": {given: func(w *world) { w.planes[0].Annotations = mark },
			want: map[string]float64{
				"InfrastructureNotReady": 1, "Paused": 1, "CreateError": 1, "Deleting": 1,
			}},
	} {
		t.Run(name, func(t *testing.T) {
			w := paused(t)
			tc.given(w)
			w.lead()
			got := map[string]float64{}
			for key, value := range w.read() {
				if reason, is := strings.CutPrefix(key, "stuck_objects Machine "); is {
					got[reason] = value
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("machines by reason (-want +got):\n%s", diff)
			}
		})
	}
}

// A pause changes the reason but not the state.
func TestPauses_StatesStay(t *testing.T) {
	states := func(w *world) map[string]float64 {
		w.lead()
		got := w.read()
		maps.DeleteFunc(got, func(key string, _ float64) bool {
			return !strings.HasPrefix(key, "machines ") && !strings.HasPrefix(key, "clusters ")
		})
		return got
	}
	w := paused(t)
	w.cores[0].Spec.Paused = new(true)
	if diff := cmp.Diff(states(paused(t)), states(w)); diff != "" {
		t.Errorf("states without (-) and with a pause (+):\n%s", diff)
	}
}

// A cluster that was deleted while it is paused, or with the annotation, remains until that ends. Failures are still
// reported.
func TestPauses_OfARemovedCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(core *clusterv1.Cluster)
		said  string
		want  string
	}{
		"nothing is paused": {said: "", want: "Deleting", given: func(*clusterv1.Cluster) {}},
		"spec.paused": {said: "", want: "Paused", given: func(core *clusterv1.Cluster) {
			core.Spec.Paused = new(true)
		}},
		"spec.paused, for a long time": {said: "DeletionOverdue", want: "Paused",
			given: func(core *clusterv1.Cluster) { core.Spec.Paused = new(true) }},
		"spec.paused, and another reason": {said: "Error", want: "Error", given: func(core *clusterv1.Cluster) {
			core.Spec.Paused = new(true)
		}},
		"the annotation": {said: "", want: "Paused", given: func(core *clusterv1.Cluster) {
			core.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			cluster, _ := w.add("demo")
			cluster.DeletionTimestamp = new(metav1.NewTime(noon.Add(-time.Hour)))
			if tc.said != "" {
				conditions.Set(&cluster.Status.Conditions, conditions.Condition{Type: provv1.ConditionRemoved,
					Status: "False", Reason: tc.said}, noon)
			}
			w.cores = []*clusterv1.Cluster{{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "demo"}}}
			tc.given(w.cores[0])
			w.lead()
			want := map[string]float64{
				"leader": 1, "clusters deleting": 1, "stuck_objects Cluster " + tc.want: 1,
				"stuck_age_seconds Cluster " + tc.want: 3600,
			}
			if diff := cmp.Diff(want, w.read()); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

// The time counts from the end of a pause. Otherwise that end would cause an alert.
func TestPauses_TimeBeginsWithTheEndOfAPause(t *testing.T) {
	w := paused(t)
	w.clusters[0].DeletionTimestamp = w.machines[3].DeletionTimestamp
	end := func(list *[]metav1.Condition) {
		conditions.SetMeta(list, conditions.Condition{Type: clusterv1.PausedCondition, Status: "False",
			Reason: clusterv1.NotPausedReason}, 1, noon.Add(-time.Minute))
	}
	end(&w.cores[0].Status.Conditions)
	for _, machine := range w.machines {
		end(&machine.Status.Conditions)
	}
	w.lead()
	got := w.read()
	maps.DeleteFunc(got, func(key string, _ float64) bool { return !strings.HasPrefix(key, "stuck_age_seconds ") })
	want := map[string]float64{
		"stuck_age_seconds Cluster Deleting": 60, "stuck_age_seconds Machine Deleting": 60,
		"stuck_age_seconds Machine InfrastructureNotReady": 60, "stuck_age_seconds Machine NodeMissing": 60,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ages (-want +got):\n%s", diff)
	}
}

// The end of a pause of the infrastructure machine, RKEBootstrap or RKEControlPlane is remembered from earlier scrapes,
// because no condition of the Machine shows it.
func TestPauses_TimeBeginsWithTheEndOfAnotherObjectsPause(t *testing.T) {
	w := paused(t)
	mark := map[string]string{clusterv1.PausedAnnotation: "true"}
	w.annotations = map[string]map[string]string{"Host creating": mark, "Host deleting": mark}
	w.planes[0].Annotations = mark
	w.lead()
	w.read()
	w.now = w.now.Add(2 * time.Hour)
	if got := w.read()["stuck_objects Machine Paused"]; got != 3 {
		t.Fatalf("%v machines are blocked, want 3", got)
	}
	w.annotations, w.planes[0].Annotations = nil, nil
	w.now = w.now.Add(time.Minute)
	w.read()
	w.now = w.now.Add(time.Minute)
	got := w.read()
	maps.DeleteFunc(got, func(key string, _ float64) bool {
		return !strings.HasPrefix(key, "stuck_age_seconds Machine") || strings.HasSuffix(key, "CreateError")
	})
	want := map[string]float64{
		"stuck_age_seconds Machine Deleting": 120, "stuck_age_seconds Machine InfrastructureNotReady": 120,
		"stuck_age_seconds Machine NodeMissing": 120,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ages (-want +got):\n%s", diff)
	}
	w.machines = w.machines[:1]
	w.machines[0].DeletionTimestamp = nil
	w.read()
	if kept := len(w.fleet.held); kept > 1 {
		t.Errorf("%d machines are remembered, but only one exists", kept)
	}
}
