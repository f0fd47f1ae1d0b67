package charts

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/testkit/build"
)

// fleet is a Drover with one healthy cluster, with real caches and metrics. Only the objects are made up.
type fleet struct {
	*testing.T
	now      time.Time
	registry *prometheus.Registry
	stop     func()
	down     bool // Drover does not answer

	metrics     *metrics.Fleet
	disruptions *metrics.Disruptions
	reconciles  *metrics.Reconciles
	queue       *prometheus.GaugeVec
	serving     time.Time

	cluster  *provv1.Cluster
	plane    *rkev1.RKEControlPlane
	core     *clusterv1.Cluster
	machines []*clusterv1.Machine
	snapshot *rkev1.ETCDSnapshot
	plan     *corev1.Secret
}

func newFleet(t *testing.T, now time.Time) *fleet {
	t.Helper()
	f := &fleet{T: t, now: now, registry: prometheus.NewRegistry(), serving: now.Add(90 * 24 * time.Hour)}
	var err error
	f.metrics, err = metrics.NewFleet(f.registry, func() time.Time { return f.now })
	check(t, err)
	f.disruptions, err = metrics.NewDisruptions(f.registry)
	check(t, err)
	f.reconciles, err = metrics.NewReconciles(f.registry)
	check(t, err)
	check(t, metrics.NewServingCertificate(f.registry, func() time.Time { return f.serving }))
	f.queue = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth",
		Help: "As Kubernetes' client library has it."}, []string{"name"})
	f.registry.MustRegister(f.queue)
	f.queue.WithLabelValues("Cluster").Set(1)
	f.makeObjects()
	f.stop = f.metrics.Lead(metrics.Source{
		InstanceID:    "me",
		Clusters:      func() ([]*provv1.Cluster, error) { return []*provv1.Cluster{f.cluster}, nil },
		ControlPlanes: func() ([]*rkev1.RKEControlPlane, error) { return []*rkev1.RKEControlPlane{f.plane}, nil },
		CAPIClusters:  func() ([]*clusterv1.Cluster, error) { return []*clusterv1.Cluster{f.core}, nil },
		Machines:      func() ([]*clusterv1.Machine, error) { return f.machines, nil },
		Snapshots:     func() ([]*rkev1.ETCDSnapshot, error) { return []*rkev1.ETCDSnapshot{f.snapshot}, nil },
		Cluster:       func(string, string) *provv1.Cluster { return f.cluster },
		Annotations:   func(string, clusterv1.ContractVersionedObjectReference) map[string]string { return nil },
		Secret: func(_, name string) *corev1.Secret {
			if name == f.plan.Name {
				return f.plan
			}
			return nil
		},
	})
	return f
}

func (f *fleet) makeObjects() {
	f.cluster, f.plane = build.Cluster("demo"), build.ControlPlane("demo")
	f.cluster.Annotations = map[string]string{rkev1.InstanceAnnotation: "me"}
	f.cluster.CreationTimestamp = metav1.NewTime(f.now.Add(-24 * time.Hour))
	f.core = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "demo"}}
	f.plane.CreationTimestamp = f.cluster.CreationTimestamp
	f.plane.Status.AppliedSpec = f.plane.Spec.DeepCopy()
	f.ready("True", "")
	machine := build.Machine("demo", "a", "ecw", build.WithNode("a"))
	machine.CreationTimestamp = f.cluster.CreationTimestamp
	f.machines = append(f.machines, machine)
	f.say(machine, clusterv1.MachineInfrastructureReadyCondition, "True", "Ready")
	f.say(machine, clusterv1.MachineNodeHealthyCondition, "True", "NodeHealthy")
	f.plan = build.PlanSecret(machine, "plan", "{}", "appliedPlan", "{}")
	f.snapshot = &rkev1.ETCDSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "s"},
		Spec:       rkev1.ETCDSnapshotSpec{ClusterName: "demo"},
		SnapshotFile: rkev1.ETCDSnapshotFile{CreatedAt: new(metav1.NewTime(f.now.Add(-time.Hour))),
			Status: "successful"},
	}
}

// ready sets the status of the control plane's condition from now on.
func (f *fleet) ready(status, reason string) {
	before := f.plane.DeepCopy()
	conditions.Set(&f.plane.Status.Conditions, conditions.Condition{Type: rkev1.ConditionReady, Status: status,
		Reason: reason, Message: reason}, f.now)
	f.metrics.ControlPlaneChanged(before, f.plane)
}

// say sets a condition of a machine from now on.
func (f *fleet) say(machine *clusterv1.Machine, kind, status, reason string) {
	before := machine.DeepCopy()
	conditions.SetMeta(&machine.Status.Conditions, conditions.Condition{Type: kind, Status: status, Reason: reason}, 1,
		f.now)
	f.metrics.MachineChanged(before, machine)
}

// join adds a machine that has no host yet.
func (f *fleet) join() *clusterv1.Machine {
	machine := build.Machine("demo", "b", "w")
	machine.CreationTimestamp = metav1.NewTime(f.now)
	f.machines = append(f.machines, machine)
	return machine
}

// noQuota makes the creation of a host fail.
func (f *fleet) noQuota() {
	machine := func(status map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		u.SetNamespace(f.cluster.Namespace)
		u.SetLabels(map[string]string{clusterv1.ClusterNameLabel: f.cluster.Name})
		return u
	}
	f.metrics.InfrastructureChanged(machine(nil), machine(map[string]any{"failureReason": rkev1.ReasonCreateError}))
}

func (f *fleet) restoreFails() {
	was := f.plane.DeepCopy()
	conditions.Set(&f.plane.Status.Conditions, conditions.Condition{Type: planner.ConditionSnapshotRestored,
		Status: "False", Reason: "Error"}, f.now)
	f.metrics.ControlPlaneChanged(was, f.plane)
}

// pause is a user's pause while two machines are being created and before one is deleted.
func (f *fleet) pause() {
	f.metrics.Reasons.Note("fleet-default/demo", &planner.Wait{Reason: planner.ReasonPaused})
	f.ready("Unknown", "Waiting")
	f.core.Spec.Paused = new(true)
	f.join()
	f.say(f.join(), clusterv1.MachineInfrastructureReadyCondition, "True", "Ready")
	f.machines[0].DeletionTimestamp = new(metav1.NewTime(f.now))
	for _, machine := range f.machines {
		f.say(machine, clusterv1.PausedCondition, "True", clusterv1.PausedReason)
	}
}

// resume ends the pause. Nothing has happened since.
func (f *fleet) resume() {
	f.core.Spec.Paused = nil
	f.metrics.Reasons.Note("fleet-default/demo", nil)
	f.ready("True", "")
	for _, machine := range f.machines {
		f.say(machine, clusterv1.PausedCondition, "False", clusterv1.NotPausedReason)
	}
}

// answer returns the result of a scrape. It is empty if Drover is down.
func (f *fleet) answer() *prometheus.Registry {
	if f.down {
		return prometheus.NewRegistry()
	}
	return f.registry
}
