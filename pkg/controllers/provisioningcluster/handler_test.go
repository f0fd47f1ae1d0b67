package provisioningcluster

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// fresh makes the cluster one that a user has just applied.
func fresh(w *world) {
	w.cluster.Annotations, w.cluster.Finalizers, w.cluster.Status = nil, nil, provv1.ClusterStatus{}
	w.cluster.Spec.RKEConfig.MachinePools[0].DynamicSchemaSpec = ""
	w.configs["PodConfig/fleet-default/nc"].SetOwnerReferences(nil)
}

// wholeWay is what a new cluster costs, in one pass.
var wholeWay = []string{
	"patch cluster", "update cluster status", "apply management", "update PodConfig", "apply", "update cluster status",
}

// TestOnChange_Writes lists every write of one reconcile, in order.
func TestOnChange_Writes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		edit func(*world)
		want []string
	}{
		"a new cluster is marked, named and translated": {fresh, wholeWay},
		"a cluster that has got its name": {
			func(w *world) { w.configs["PodConfig/fleet-default/nc"].SetOwnerReferences(nil) },
			[]string{"apply management", "update PodConfig", "apply", "update cluster status"},
		},
		"a settled cluster writes nothing but what apply finds": {
			func(w *world) {
				conditions.Set(&w.cluster.Status.Conditions, conditions.Condition{Type: "RKECluster", Status: "True"},
					now)
			}, []string{"apply management", "apply"},
		},
		"a new cluster beside Rancher": {
			func(w *world) { fresh(w); w.rival = "Rancher runs" }, nil,
		},
		"a marked cluster beside Rancher": {
			func(w *world) {
				w.rival = "Rancher runs"
				w.configs["PodConfig/fleet-default/nc"].SetOwnerReferences(nil)
			},
			[]string{"apply management", "update PodConfig", "apply", "update cluster status"},
		},
		"a cluster to import is marked, too": {
			func(w *world) { fresh(w); w.cluster.Spec.RKEConfig = nil },
			[]string{"patch cluster", "update cluster status", "apply management", "update cluster status"},
		},
		"an imported cluster whose management side came first": {
			func(w *world) { fresh(w); w.cluster.Name, w.cluster.Spec.RKEConfig = "c-a2b4c", nil }, nil,
		},
		"the cluster that Rancher runs in": {
			func(w *world) { fresh(w); w.cluster.Spec.RKEConfig = nil; w.cluster.Status.ClusterName = "local" }, nil,
		},
		"a cluster that another manager has named and made nothing for": {
			func(w *world) { fresh(w); w.cluster.Status.ClusterName = "c-m-aaaaaaaa" }, nil,
		},
		"another manager's deleted cluster of which nothing is left": {
			func(w *world) { w.cluster.Annotations = nil; w.cluster.DeletionTimestamp = &metav1.Time{Time: now} }, nil,
		},
		"an imported cluster that is marked": {
			func(w *world) { w.cluster.Spec.RKEConfig = nil }, []string{"apply management"},
		},
		"another instance's cluster": {
			func(w *world) { w.cluster.Annotations["drover.io/instance"] = "instance-2" }, nil,
		},
		"another manager's cluster": {
			func(w *world) { fresh(w); w.capiCluster = &clusterv1.Cluster{} }, nil,
		},
		"another manager's cluster whose children are not cached yet": {
			func(w *world) { fresh(w); w.uncached = true }, nil,
		},
		"another manager's broken cluster": {
			func(w *world) {
				fresh(w)
				w.controlPlane = &rkev1.RKEControlPlane{}
				w.cluster.Spec.KubernetesVersion = ""
			}, nil,
		},
		"another manager's deleted cluster": {
			func(w *world) {
				w.cluster.Annotations = nil
				w.cluster.DeletionTimestamp = &metav1.Time{Time: now}
				w.capiCluster = &clusterv1.Cluster{}
			}, nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.edit)
			if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, w.writes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A new cluster is requeued until one of the two managers claims it, because the end of Rancher causes no event.
func TestOnChange_ClaimsOnceTheRivalIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fresh, func(w *world) { w.rival = "Rancher runs" })
	handle := w.register()
	for _, want := range []time.Duration{claimRetry, 0} {
		w.after = 0
		if _, err := handle("", w.cluster.DeepCopy()); err != nil || w.after != want {
			t.Errorf("looked at again after %s, want %s: %v", w.after, want, err)
		}
		w.rival = ""
	}
	if diff := cmp.Diff(wholeWay, w.writes); diff != "" {
		t.Error(diff)
	}
	w = newWorld(t, fresh, func(w *world) { w.rivalErr = errors.New("forbidden") })
	if _, err := w.register()("", w.cluster.DeepCopy()); err == nil || len(w.writes) > 0 {
		t.Errorf("claimed without knowing who else runs: %v, writes %v", err, w.writes)
	}
}

func TestOnChange_ClusterIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got, err := w.register()("fleet-default/demo", nil); got != nil || err != nil || len(w.writes) > 0 {
		t.Errorf("got %v, error %v, writes %v", got, err, w.writes)
	}
}

// TestOnChange_BadInput: each bad input is claimed, reported, and makes no object.
func TestOnChange_BadInput(t *testing.T) {
	t.Parallel()
	pool := func(w *world) *provv1.RKEMachinePool { return &w.cluster.Spec.RKEConfig.MachinePools[0] }
	cases := map[string]struct {
		edit      func(*world)
		wantField string
	}{
		"pool without a role": {
			func(w *world) {
				pool(w).EtcdRole, pool(w).ControlPlaneRole = false,
					false
			}, "spec.rkeConfig.machinePools[0]",
		},
		"unknown driver kind": {
			func(w *world) {
				pool(
					w).NodeConfig.Kind = "NopeConfig"
			}, "spec.rkeConfig.machinePools[0].machineConfigRef.kind",
		},
		"missing machine config": {
			func(w *world) { w.configs = nil }, "spec.rkeConfig.machinePools[0].machineConfigRef.name",
		},
		"missing credential": {
			func(w *world) { w.cluster.Spec.CloudCredentialSecretName = "cc-x" }, "spec.cloudCredentialSecretName",
		},
		"no kubernetesVersion": {
			func(w *world) { w.cluster.Spec.KubernetesVersion = "" }, "spec.kubernetesVersion",
		},
		"kubernetesVersion that is none": {
			func(w *world) { w.cluster.Spec.KubernetesVersion = "newest" }, "spec.kubernetesVersion",
		},
		"name too long": {
			func(w *world) {
				w.cluster.Name = strings.Repeat("n", 64)
				if w.cluster.Annotations != nil {
					w.cluster.Annotations[provv1.ManagementClusterDisplayNameAnnotation] = w.cluster.Name
				}
			}, "metadata.name",
		},
		"rkeConfig taken away": {
			func(w *world) {
				w.cluster.Spec.RKEConfig = nil
				w.controlPlane = &rkev1.RKEControlPlane{}
			}, "spec.rkeConfig",
		},
	}
	for name, c := range cases {
		for _, age := range []string{"new", "existing"} {
			t.Run(name+", "+age, func(t *testing.T) {
				t.Parallel()
				isNew := age == "new" && name != "rkeConfig taken away"
				w := newWorld(t, func(w *world) {
					if isNew {
						fresh(w)
					}
				}, c.edit)
				second, created := []string{"apply management"}, "True"
				first := append(slices.Clone(second), "update cluster status")
				if isNew {
					first, second, created = []string{"patch cluster", "update cluster status"}, nil, "Unknown"
				}
				handle := w.register()
				if _, err := handle("", w.cluster.DeepCopy()); err != nil {
					t.Fatalf("is tried again although a person has to act: %v", err)
				}
				if diff := cmp.Diff(first, w.writes); diff != "" {
					t.Fatalf("writes: %s", diff)
				}
				if isNew && w.cluster.Annotations["drover.io/instance"] != instance {
					t.Errorf("the cluster is not claimed: %+v", w.cluster)
				}
				if isNew && (w.cluster.Status.ClusterName != "" || pool(w).DynamicSchemaSpec != "") {
					t.Errorf("the cluster is more than claimed: %+v", w.cluster)
				}
				condition := conditions.Get(w.cluster.Status.Conditions, "RKECluster")
				if condition.Status != "False" || condition.Reason != "InvalidSpec" ||
					!strings.HasPrefix(condition.Message, c.wantField+": ") {
					t.Errorf("condition %+v", condition)
				}
				if err := outcome.CheckStable(condition.Message); err != nil &&
					!strings.Contains(condition.Message, "v1.36.2") {
					t.Error(err)
				}
				for kind, want := range map[string]string{"Ready": "False", "Stalled": "True", "Created": created} {
					if got := conditions.Get(w.cluster.Status.Conditions, kind); got == nil || got.Status != want {
						t.Errorf("%s %+v", kind, got)
					}
				}
				w.writes = nil
				_, err := handle("", w.cluster.DeepCopy())
				if diff := cmp.Diff(second, w.writes); diff != "" || err != nil {
					t.Errorf("a second pass writes %v, error %v", w.writes, err)
				}
			})
		}
	}
}

func TestOnChange_BadEditKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.controlPlane = &rkev1.RKEControlPlane{}
		conditions.Set(&w.controlPlane.Status.Conditions, conditions.Condition{Type: "Ready", Status: "True"}, now)
		w.cluster.Spec.KubernetesVersion = "oops"
	})
	if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if !conditions.IsTrue(w.cluster.Status.Conditions, "Ready") || !conditions.IsFalse(w.cluster.Status.Conditions,
		"Updated") {
		t.Errorf("conditions %+v", w.cluster.Status.Conditions)
	}
}

// TestOnChange_AtRestNothingIsWritten: nothing is written for a settled cluster, as time passes and irrelevant events
// arrive.
func TestOnChange_AtRestNothingIsWritten(t *testing.T) {
	t.Parallel()
	running := func(w *world) {
		w.controlPlane = &rkev1.RKEControlPlane{}
		conditions.Set(&w.controlPlane.Status.Conditions, conditions.Condition{Type: "Ready", Status: "True"}, now)
	}
	for name, edits := range map[string][]func(*world){
		"a bad edit of a running cluster": {running, func(w *world) { w.cluster.Spec.KubernetesVersion = "oops" }},
		"a bad new cluster":               {func(w *world) { w.cluster.Spec.KubernetesVersion = "oops" }},
		"a running cluster":               {running},
		"a cluster that is deleted": {running, func(w *world) {
			w.cluster.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Hour)} // it is overdue already
			w.capiCluster = &clusterv1.Cluster{
				ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, edits...)
			handle := w.register()
			for pass := range 4 {
				w.clock = now.Add(time.Duration(pass) * time.Hour)
				w.writes = nil
				if _, err := handle("", w.cluster.DeepCopy()); err != nil {
					t.Fatal(err)
				}
				got := slices.DeleteFunc(w.writes, func(write string) bool { return strings.HasPrefix(write, "apply") })
				if pass > 0 && len(got) > 0 {
					t.Errorf("pass %d writes %v: %+v", pass, got, w.cluster.Status.Conditions)
				}
			}
		})
	}
}

func TestOnChange_FollowsTheControlPlane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.controlPlane = &rkev1.RKEControlPlane{} })
	handle := w.register()
	if _, err := handle("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if conditions.Get(w.cluster.Status.Conditions, "Ready") != nil {
		t.Error("a condition that the control plane does not have was copied")
	}
	conditions.Set(&w.controlPlane.Status.Conditions, conditions.Condition{
		Type: "Ready", Status: "Unknown", Reason: "Waiting", Message: "waiting for machine a",
	}, now)
	if _, err := handle("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if conditions.Get(w.cluster.Status.Conditions, "Ready") != nil || w.after != 3*time.Second {
		t.Errorf("a text was written right after another write, next pass after %s", w.after)
	}
	w.clock = w.clock.Add(w.after)
	if _, err := handle("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	for _, conditionType := range []string{"Ready", "Updated", "Provisioned"} {
		got := conditions.Get(w.cluster.Status.Conditions, conditionType)
		if got == nil || got.Status != "Unknown" || got.Reason != "Waiting" || got.Message != "waiting for machine a" {
			t.Errorf("%s: %+v", conditionType, got)
		}
	}
}

func workersOnly(w *world) {
	pool := &w.cluster.Spec.RKEConfig.MachinePools[0]
	pool.EtcdRole, pool.ControlPlaneRole, pool.WorkerRole = false, false, true
}

func pooled(m *clusterv1.Machine) { m.Labels = map[string]string{rkev1.MachinePoolNameLabel: "pool1"} }

// A cluster whose pools have no servers is refused until servers have registered.
func TestOnChange_RefusesClustersWithoutServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workersOnly)
	handle := w.register()
	message := func() (status, message string) {
		t.Helper()
		if _, err := handle("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		condition := conditions.Get(w.cluster.Status.Conditions, "RKECluster")
		if condition == nil {
			return "", ""
		}
		return condition.Status, condition.Message
	}
	if status, text := message(); status != "False" || !strings.Contains(text, "no pool has machines with etcd") ||
		len(w.applied) > 0 {
		t.Fatalf("RKECluster is %q: %s; applied %d objects", status, text, len(w.applied))
	}
	server := machine("s")
	server.Labels = map[string]string{rkev1.EtcdRoleLabel: "true", rkev1.ControlPlaneRoleLabel: "true"}
	leaving := machine("s", deletedFor(0))
	leaving.Labels = server.Labels
	w.machines = []*clusterv1.Machine{leaving, machine("p", pooled)}
	if _, text := message(); !strings.Contains(text, "no pool has machines with etcd") {
		t.Errorf("a server that goes counts: %s", text)
	}
	w.machines = []*clusterv1.Machine{server}
	if _, text := message(); strings.Contains(text, "no pool") || len(w.applied) == 0 {
		t.Errorf("servers have registered: %s", text)
	}
}

// healthChecked enables a health check for the first pool.
func healthChecked(w *world) {
	pool := &w.cluster.Spec.RKEConfig.MachinePools[0]
	pool.EtcdRole, pool.ControlPlaneRole, pool.Quantity = true, true, new(int32(4))
	pool.UnhealthyNodeTimeout = &metav1.Duration{Duration: time.Minute}
}

// Registered etcd members count for the quorum that health checks keep.
func TestOnChange_HealthChecksCountRegisteredMembers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		machines []*clusterv1.Machine
		want     string
	}{
		"none":          {want: "49%"},
		"one with etcd": {machines: []*clusterv1.Machine{machine("s", registeredEtcd)}, want: "25%"},
		"one with etcd that goes": {machines: []*clusterv1.Machine{machine("s", registeredEtcd, deletedFor(0))},
			want: "49%"},
		"a worker, and one of a pool": {machines: []*clusterv1.Machine{machine("w"), machine("p", pooled)},
			want: "49%"},
	} {
		w := newWorld(t, healthChecked, func(w *world) { w.machines = tc.machines })
		if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, object := range w.applied {
			if check, ok := object.(*clusterv1.MachineHealthCheck); ok {
				got = check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo.String()
			}
		}
		if got != tc.want {
			t.Errorf("%s: the limit is %q, want %s", name, got, tc.want)
		}
	}
}

// Health checks pause from the first phase of a restore to the last, however it ends.
func TestOnChange_HealthChecksPauseForARestore(t *testing.T) {
	t.Parallel()
	for phase, want := range map[rkev1.ETCDSnapshotPhase]bool{
		"": false, rkev1.ETCDSnapshotPhaseStarted: true, rkev1.ETCDSnapshotPhaseShutdown: true,
		rkev1.ETCDSnapshotPhaseInitialRestartCluster: true,
		rkev1.ETCDSnapshotPhaseRestartCluster:        true, rkev1.ETCDSnapshotPhaseFinished: false,
		rkev1.ETCDSnapshotPhaseFailed: false,
	} {
		w := newWorld(t, healthChecked, func(w *world) {
			w.controlPlane = &rkev1.RKEControlPlane{
				Status: rkev1.RKEControlPlaneStatus{ETCDSnapshotRestorePhase: phase}}
		})
		if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		seen := false
		for _, object := range w.applied {
			if check, ok := object.(*clusterv1.MachineHealthCheck); ok {
				seen = true
				if _, got := check.Annotations[clusterv1.PausedAnnotation]; got != want {
					t.Errorf("%q: paused %v, want %v", phase, got, want)
				}
			}
		}
		if !seen {
			t.Errorf("%q: there is no health check", phase)
		}
	}
}

func registeredEtcd(m *clusterv1.Machine) { m.Labels = map[string]string{rkev1.EtcdRoleLabel: "true"} }

// The Cluster repeats the control plane's warnings.
func TestOnChange_RepeatsWarnings(t *testing.T) {
	t.Parallel()
	warnings := []string{"ConfigurationUnderstood", "EtcdQuorum", "RenderVersionsKnown", "AgentsUpgraded"}
	for _, warning := range warnings {
		w := newWorld(t, func(w *world) { w.controlPlane = &rkev1.RKEControlPlane{} })
		conditions.Set(&w.controlPlane.Status.Conditions, conditions.Condition{Type: warning, Status: "False",
			Reason: "Odd", Message: "look at it"}, now)
		if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		got := conditions.Get(w.cluster.Status.Conditions, warning)
		if got == nil || got.Status != "False" || got.Reason != "Odd" || got.Message != "look at it" {
			t.Errorf("condition %+v", got)
		}
		for _, other := range warnings {
			if other != warning && conditions.Get(w.cluster.Status.Conditions, other) != nil {
				t.Errorf("with %s, %s was copied, which the control plane does not have", warning, other)
			}
		}
	}
}

func TestOnChange_ApplyFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.applyErr = errors.New("the API server said no") })
	if _, err := w.register()("", w.cluster.DeepCopy()); err == nil {
		t.Error("is not tried again")
	}
	condition := conditions.Get(w.cluster.Status.Conditions, "RKECluster")
	if condition.Status != "False" || condition.Reason != "Error" || condition.Message != "the API server said no" {
		t.Errorf("condition %+v", condition)
	}
}

func TestOnChange_ScaledBySomebodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		scaled := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "demo-pool1"},
			Spec: clusterv1.MachineDeploymentSpec{Replicas: new(int32(4))}}
		scaled.Spec.Template.Labels = map[string]string{rkev1.EtcdRoleLabel: "true",
			rkev1.ControlPlaneRoleLabel: "true"}
		w.deployments = []*clusterv1.MachineDeployment{scaled}
	})
	if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int32{}
	for _, object := range w.applied {
		if deployment, ok := object.(*clusterv1.MachineDeployment); ok {
			sizes[deployment.Name] = *deployment.Spec.Replicas
		}
	}
	if !maps.Equal(sizes, map[string]int32{"demo-pool1": 4}) {
		t.Errorf("sizes %v", sizes)
	}
	// An autoscaler may write the size again before the apply.
	if want := []applyset.Field{{Kind: clusterv1.GroupVersion.WithKind("MachineDeployment"),
		Namespace: w.cluster.Namespace, Name: "demo-pool1", Path: "/spec/replicas"}}; !slices.Equal(w.kept, want) {
		t.Errorf("kept fields %v", w.kept)
	}
}

func TestWakeUps(t *testing.T) {
	t.Parallel()
	onlyWorkers, checked := newWorld(t, workersOnly).cluster, newWorld(t, healthChecked).cluster
	for name, tc := range map[string]struct {
		machine *clusterv1.Machine
		cluster *provv1.Cluster
		want    bool
	}{
		"a machine that lives":                      {machine: machine("a")},
		"a machine that goes":                       {machine: machine("a", deletedFor(0)), want: true},
		"a machine of a pool, where servers lack":   {machine: machine("a", pooled), cluster: onlyWorkers},
		"a machine of no pool, where servers lack":  {machine: machine("a"), cluster: onlyWorkers, want: true},
		"a machine of no pool, where nothing lacks": {machine: machine("a"), cluster: newWorld(t).cluster},
		"a machine of no pool, beside checked etcd": {machine: machine("a"), cluster: checked, want: true},
		"a machine of a pool, of checked etcd":      {machine: machine("a", pooled), cluster: checked},
	} {
		cache := fake.NewMockCacheInterface[*provv1.Cluster](gomock.NewController(t))
		cache.EXPECT().Get(gomock.Any(), "demo").DoAndReturn(func(_, name string) (*provv1.Cluster, error) {
			return get(tc.cluster, name)
		}).AnyTimes()
		tc.machine.Spec.ClusterName = "demo"
		if keys := (&handler{clusters: cache}).ofMachine(tc.machine); (len(keys) > 0) != tc.want {
			t.Errorf("%s wakes %v", name, keys)
		}
	}
	cache := fake.NewMockCacheInterface[*provv1.Cluster](gomock.NewController(t))
	cache.EXPECT().Get("n", "demo").DoAndReturn(func(_, _ string) (*provv1.Cluster, error) {
		return checked, nil
	}).AnyTimes()
	h := &handler{clusters: cache}
	scaled := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n",
			Annotations: map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "1"}},
		Spec: clusterv1.MachineDeploymentSpec{ClusterName: "demo"},
	}
	scaled.Spec.Template.Labels = map[string]string{rkev1.EtcdRoleLabel: "true", rkev1.ControlPlaneRoleLabel: "true"}
	if keys := h.ofMachineDeployment(scaled); len(keys) != 1 {
		t.Errorf("keys %v", keys)
	}
	scaled.Annotations, scaled.Name = nil, checked.Name+"-"+checked.Spec.RKEConfig.MachinePools[0].Name
	if keys := h.ofMachineDeployment(scaled); len(keys) != 0 {
		t.Errorf("keys %v of a pool that the manifest sizes", keys)
	}
	checked.Spec.RKEConfig.MachinePools[0].Quantity = nil
	if keys := h.ofMachineDeployment(scaled); len(keys) != 1 {
		t.Errorf("keys %v of a pool that an autoscaler sizes", keys)
	}
}

// TestOnChange_KindIsNotServedYet: a kind whose objects cannot be read yet does not count as a missing object.
func TestOnChange_KindIsNotServedYet(t *testing.T) {
	t.Parallel()
	t.Run("of a new cluster", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(w *world) { fresh(w); w.unserved = true; w.configs = nil })
		if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		condition := conditions.Get(w.cluster.Status.Conditions, "RKECluster")
		if condition.Status != "Unknown" || condition.Message != "Waiting for kind PodConfig to be served" ||
			w.after == 0 {
			t.Errorf("condition %+v, again after %v", condition, w.after)
		}
	})
	t.Run("just after a start", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(w *world) {
			w.unserved, w.configs, w.controlPlane = true, nil, &rkev1.RKEControlPlane{}
		})
		_, err := w.register()("", w.cluster.DeepCopy())
		if diff := cmp.Diff([]string{"apply management"}, w.writes); diff != "" || err != nil || w.after == 0 {
			t.Errorf("writes %v, error %v, again after %v", w.writes, err, w.after)
		}
	})
}
