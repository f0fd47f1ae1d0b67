package metrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/testkit/build"
)

func TestFleet(t *testing.T) {
	condition := func(list *[]rkev1.GenericCondition, kind, status, reason string, ago time.Duration) {
		conditions.Set(list, conditions.Condition{Type: kind, Status: status, Reason: reason, Message: reason},
			noon.Add(-ago))
	}
	for name, tc := range map[string]struct {
		given func(w *world)
		want  map[string]float64
	}{
		"all ready": {
			given: func(w *world) { w.add("demo", "a", "b") },
			want: map[string]float64{"leader": 1, "clusters ready": 1, "machines running": 2,
				"clusters_without_snapshot": 1, "agents unknown": 2},
		},
		"versions of agents": {
			given: func(w *world) {
				w.add("demo", "a", "b", "c")
				for i, version := range []string{"v2", "v1"} {
					w.keep(build.PlanSecret(w.machines[i], "plan", "{}", "appliedPlan", "{}",
						nodeplan.KeyAgentVersion, version))
				}
			},
			want: map[string]float64{"leader": 1, "clusters ready": 1, "machines running": 3,
				"clusters_without_snapshot": 1, "agents current": 1, "agents other": 1, "agents unknown": 1},
		},
		"a cluster of another manager does not count": {
			given: func(w *world) {
				cluster, _ := w.add("demo", "a")
				cluster.Annotations[rkev1.InstanceAnnotation] = "you"
			},
			want: map[string]float64{"leader": 1},
		},
		"an imported cluster does not wait": {
			given: func(w *world) {
				cluster, _ := w.add("demo")
				cluster.Spec.RKEConfig, w.planes = nil, nil
			},
			want: map[string]float64{"leader": 1},
		},
		"a cluster waits for the reason of the planner": {
			given: func(w *world) {
				_, plane := w.add("demo")
				plane.Spec.ETCD = &rkev1.ETCD{DisableSnapshots: true}
				condition(&plane.Status.Conditions, rkev1.ConditionReady, "Unknown", "Waiting", time.Minute)
				w.fleet.Reasons.Note("fleet-default/demo", &planner.Wait{Reason: planner.ReasonDraining})
				w.fleet.Reasons.Note("fleet-default/demo",
					&planner.Wait{Reason: planner.ReasonCacheBehind, Quiet: true})
			},
			want: map[string]float64{"leader": 1, "clusters waiting": 1, "stuck_objects Cluster DrainingNodes": 1,
				"stuck_age_seconds Cluster DrainingNodes": 60},
		},
		"two clusters wait after a restart: the condition's reason, and the age of the older one": {
			given: func(w *world) {
				for i, ago := range []time.Duration{time.Minute, time.Hour} {
					_, plane := w.add(fmt.Sprint("demo-", i))
					plane.Status.AppliedSpec = nil
					condition(&plane.Status.Conditions, rkev1.ConditionReady, "Unknown", "Waiting", ago)
				}
			},
			want: map[string]float64{"leader": 1, "clusters waiting": 2, "stuck_objects Cluster Waiting": 2,
				"stuck_age_seconds Cluster Waiting": 3600},
		},
		"a reason of another program": {
			given: func(w *world) {
				cluster, plane := w.add("demo")
				plane.Status.AppliedSpec = nil
				condition(&cluster.Status.Conditions, provv1.ConditionRKECluster, "False", "Whatever", time.Minute)
			},
			want: map[string]float64{"leader": 1, "clusters failed": 1, "stuck_objects Cluster Other": 1,
				"stuck_age_seconds Cluster Other": 60},
		},
		"an overdue removal": {
			given: func(w *world) {
				cluster, _ := w.add("demo", "a")
				cluster.DeletionTimestamp = new(metav1.NewTime(noon.Add(-time.Hour)))
				w.machines[0].DeletionTimestamp = cluster.DeletionTimestamp
				condition(&cluster.Status.Conditions, provv1.ConditionRemoved, "False", "DeletionOverdue", time.Minute)
			},
			want: map[string]float64{
				"leader": 1, "clusters deleting": 1, "stuck_objects Cluster DeletionOverdue": 1,
				"stuck_age_seconds Cluster DeletionOverdue": 3600,
				"machines deleting":                         1, "stuck_objects Machine Deleting": 1,
				"stuck_age_seconds Machine Deleting": 3600,
			},
		},
		"a plan that is not applied, and snapshots": {
			given: func(w *world) {
				_, plane := w.add("demo", "a")
				plane.Spec.ETCD = &rkev1.ETCD{}
				plan := build.PlanSecret(w.machines[0], "plan", "{}")
				plan.Annotations = map[string]string{rkev1.PlanUpdatedTimeAnnotation: noon.Add(-time.Minute).Format(
					time.RFC3339)}
				w.keep(plan)
				for i, ago := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour} {
					s := &rkev1.ETCDSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace},
						Spec: rkev1.ETCDSnapshotSpec{ClusterName: "demo"}}
					s.SnapshotFile = rkev1.ETCDSnapshotFile{CreatedAt: new(metav1.NewTime(noon.Add(-ago))),
						Status: []string{"successful", "successful", "failed"}[i]}
					w.snapshots = append(w.snapshots, s)
				}
			},
			want: map[string]float64{
				"leader": 1, "clusters ready": 1, "machines running": 1, "plans_pending": 1, "plan_lag_seconds": 60,
				"snapshot_age_seconds": 7200, "agents unknown": 1,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.given(w)
			if got := w.read(); len(got) > 0 {
				t.Errorf("has metrics before it leads: %v", got)
			}
			stop := w.lead()
			if diff := cmp.Diff(tc.want, w.read()); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			stop()
			if got := w.read(); len(got) > 0 {
				t.Errorf("has metrics after its end: %v", got)
			}
		})
	}
}

// Two servers of one process share the registered metrics, which report the last leader.
func TestFleet_IsSharedByRegistry(t *testing.T) {
	w := newWorld(t)
	again, err := NewFleet(w.registry, nil)
	if err != nil || again != w.fleet {
		t.Fatalf("got another fleet, or error %v", err)
	}
	first := w.lead()
	second := w.lead()
	first()
	if w.read()["leader"] != 1 {
		t.Error("the end of the first term must not end the second term")
	}
	second()
}

// BenchmarkScrape measures one scrape: its cost per machine stays the same.
func BenchmarkScrape(b *testing.B) {
	for _, machines := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint("machines=", machines), func(b *testing.B) {
			w := fleetOf(b, machines)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.registry.Gather(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestScrape_CostIsLinear counts allocations, which other processes cannot disturb.
func TestScrape_CostIsLinear(t *testing.T) {
	cost := func(machines int) float64 {
		w := fleetOf(t, machines)
		return testing.AllocsPerRun(5, func() { _, _ = w.registry.Gather() })
	}
	few, many := cost(100), cost(1000)
	if many > 11*few {
		t.Errorf("%v allocations for 100 machines and %v for 1000", few, many)
	}
}

// fleetOf returns a world with clusters of five machines each.
func fleetOf(tb testing.TB, machines int) *world {
	tb.Helper()
	w := newWorld(&testing.T{})
	for i := range machines {
		if i%5 == 0 {
			w.add(fmt.Sprint("c-", i/5))
		}
		w.machine(fmt.Sprint("c-", i/5), fmt.Sprint("m-", i))
	}
	w.lead()
	return w
}
