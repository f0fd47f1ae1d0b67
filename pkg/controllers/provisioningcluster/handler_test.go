package provisioningcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/conditions"
	"github.com/drover-io/drover/pkg/outcome"
)

func fresh(w *world) {
	w.cluster.Annotations, w.cluster.Finalizers = nil, nil
	w.cluster.Spec.RKEConfig.MachinePools[0].DynamicSchemaSpec = ""
	w.configs["PodConfig/fleet-default/nc"].SetOwnerReferences(nil)
}

// TestOnChange_Writes lists every write of one pass, in order.
func TestOnChange_Writes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		edit func(*world)
		want []string
	}{
		"a new cluster is marked first, and waits for its name": {
			func(w *world) { fresh(w); w.cluster.Status.ClusterName = "" }, []string{"patch cluster"},
		},
		"a new cluster with a name": {
			fresh, []string{"patch cluster", "update PodConfig", "apply", "update cluster status"},
		},
		"a settled cluster writes nothing but what apply finds": {
			func(w *world) {
				conditions.Set(&w.cluster.Status.Conditions, conditions.Condition{Type: "RKECluster", Status: "True"}, now)
			}, []string{"apply"},
		},
		"an imported cluster is marked": {
			func(w *world) { fresh(w); w.cluster.Spec.RKEConfig = nil }, []string{"patch cluster"},
		},
		"an imported cluster that is marked": {
			func(w *world) { w.cluster.Spec.RKEConfig = nil }, nil,
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

func TestOnChange_ClusterIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got, err := w.register()("fleet-default/demo", nil); got != nil || err != nil || len(w.writes) > 0 {
		t.Errorf("got %v, error %v, writes %v", got, err, w.writes)
	}
}

// TestOnChange_BadInput: each makes one condition and not one object.
func TestOnChange_BadInput(t *testing.T) {
	t.Parallel()
	pool := func(w *world) *provv1.RKEMachinePool { return &w.cluster.Spec.RKEConfig.MachinePools[0] }
	cases := map[string]struct {
		edit      func(*world)
		wantField string
	}{
		"pool without a role": {
			func(w *world) { pool(w).EtcdRole, pool(w).ControlPlaneRole = false, false }, "spec.rkeConfig.machinePools[0]",
		},
		"unknown driver kind": {
			func(w *world) { pool(w).NodeConfig.Kind = "NopeConfig" }, "spec.rkeConfig.machinePools[0].machineConfigRef.kind",
		},
		"missing machine config": {
			func(w *world) { w.configs = nil }, "spec.rkeConfig.machinePools[0].machineConfigRef.name",
		},
		"missing credential": {
			func(w *world) { w.cluster.Spec.CloudCredentialSecretName = "cattle-global-data:cc-x" }, "spec.cloudCredentialSecretName",
		},
		"no kubernetesVersion": {
			func(w *world) { w.cluster.Spec.KubernetesVersion = "" }, "spec.kubernetesVersion",
		},
		"kubernetesVersion that is none": {
			func(w *world) { w.cluster.Spec.KubernetesVersion = "newest" }, "spec.kubernetesVersion",
		},
		"name too long": {
			func(w *world) { w.cluster.Name = strings.Repeat("n", 64) }, "metadata.name",
		},
		"rkeConfig taken away": {
			func(w *world) { w.cluster.Spec.RKEConfig = nil; w.controlPlane = &rkev1.RKEControlPlane{} }, "spec.rkeConfig",
		},
	}
	for name, c := range cases {
		for _, age := range []string{"new", "existing"} {
			t.Run(name+", "+age, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, func(w *world) {
					if age == "new" && name != "rkeConfig taken away" {
						fresh(w)
						w.cluster.Status.ClusterName = ""
					}
				}, c.edit)
				handle := w.register()
				if _, err := handle("", w.cluster.DeepCopy()); err != nil {
					t.Fatalf("is tried again although a person has to act: %v", err)
				}
				if diff := cmp.Diff([]string{"update cluster status"}, w.writes); diff != "" {
					t.Fatalf("writes: %s", diff)
				}
				condition := conditions.Get(w.cluster.Status.Conditions, "RKECluster")
				if condition.Status != "False" || condition.Reason != "InvalidSpec" || !strings.HasPrefix(condition.Message, c.wantField+": ") {
					t.Errorf("condition %+v", condition)
				}
				if err := outcome.CheckStable(condition.Message); err != nil && !strings.Contains(condition.Message, "v1.36.2") {
					t.Error(err)
				}
				if ready := conditions.Get(w.cluster.Status.Conditions, "Ready"); ready == nil || ready.Status != "False" {
					t.Errorf("ready %+v", ready)
				}
				w.writes = nil
				if _, err := handle("", w.cluster.DeepCopy()); err != nil || len(w.writes) > 0 {
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
	if !conditions.IsTrue(w.cluster.Status.Conditions, "Ready") || !conditions.IsFalse(w.cluster.Status.Conditions, "Updated") {
		t.Errorf("conditions %+v", w.cluster.Status.Conditions)
	}
}

// TestOnChange_AtRestNothingIsWritten: time goes on, and events come that change
// nothing.
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
			w.cluster.DeletionTimestamp = &metav1.Time{Time: now}
			w.capiCluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}
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
				got := slices.DeleteFunc(w.writes, func(write string) bool { return write == "apply" })
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
	for _, conditionType := range []string{"Ready", "Updated", "Provisioned"} {
		got := conditions.Get(w.cluster.Status.Conditions, conditionType)
		if got == nil || got.Status != "Unknown" || got.Reason != "Waiting" || got.Message != "waiting for machine a" {
			t.Errorf("%s: %+v", conditionType, got)
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
		replicas := int32(4)
		w.deployments = []*clusterv1.MachineDeployment{{
			ObjectMeta: metav1.ObjectMeta{Name: "demo-pool1"}, Spec: clusterv1.MachineDeploymentSpec{Replicas: &replicas},
		}}
	})
	if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	for _, object := range w.applied {
		if deployment, ok := object.(*clusterv1.MachineDeployment); ok && *deployment.Spec.Replicas != 4 {
			t.Errorf("replicas %d", *deployment.Spec.Replicas)
		}
	}
}

func TestWakeUps(t *testing.T) {
	t.Parallel()
	if keys := ofMachine(machine("a")); len(keys) != 0 {
		t.Errorf("a machine that lives wakes %v", keys)
	}
	gone := machine("a", deletedFor(0))
	gone.Spec.ClusterName = "demo"
	if keys := ofMachine(gone); len(keys) != 1 || keys[0].Name != "demo" {
		t.Errorf("keys %v", keys)
	}
	scaled := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Annotations: map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "1"}},
		Spec:       clusterv1.MachineDeploymentSpec{ClusterName: "demo"},
	}
	if keys := ofMachineDeployment(scaled); len(keys) != 1 {
		t.Errorf("keys %v", keys)
	}
	scaled.Annotations = nil
	if keys := ofMachineDeployment(scaled); len(keys) != 0 {
		t.Errorf("keys %v", keys)
	}
}

// TestOnChange_KindIsNotServedYet: a kind whose objects cannot be read yet is not
// a missing object.
func TestOnChange_KindIsNotServedYet(t *testing.T) {
	t.Parallel()
	t.Run("of a new cluster", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(w *world) { fresh(w); w.unserved = true; w.configs = nil })
		if _, err := w.register()("", w.cluster.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		condition := conditions.Get(w.cluster.Status.Conditions, "RKECluster")
		if condition.Status != "Unknown" || condition.Message != "Waiting for kind PodConfig to be served" || w.after == 0 {
			t.Errorf("condition %+v, again after %v", condition, w.after)
		}
	})
	t.Run("just after a start", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(w *world) {
			w.unserved, w.configs, w.controlPlane = true, nil, &rkev1.RKEControlPlane{}
		})
		if _, err := w.register()("", w.cluster.DeepCopy()); err != nil || len(w.writes) > 0 || w.after == 0 {
			t.Errorf("writes %v, error %v, again after %v", w.writes, err, w.after)
		}
	})
}
