package diagnose

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/redact"
	"github.com/drover-io/drover/pkg/testkit/build"
)

var (
	noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	past = noon.Add(-3 * time.Hour)
)

func at(t time.Time) metav1.Time { return metav1.NewTime(t) }

// healthy is a cluster demo with one server and one worker. Everything works.
func healthy() World {
	cluster := build.Cluster("demo", build.Pool("workers", "w", 1), build.Pool("servers", "ec", 1))
	cluster.CreationTimestamp = at(past)
	cluster.Annotations = map[string]string{rkev1.InstanceAnnotation: "here"}
	cluster.Spec.CloudCredentialSecretName = "cloud"
	cluster.Status.ClusterName, cluster.Status.Ready = "c-m-demo", true
	cluster.Status.Conditions = []rkev1.GenericCondition{condition("Created", "True", "", ""),
		condition("RKECluster", "True", "", ""), condition("Ready", "True", "", "")}
	core := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "demo",
		CreationTimestamp: at(past)}}
	core.Status.ObservedGeneration, core.Status.Initialization.InfrastructureProvisioned = 1, new(true)
	core.Status.Conditions = []metav1.Condition{meta("RemoteConnectionProbe", "True", "", "")}
	controlPlane := build.ControlPlane("demo")
	controlPlane.Status.Conditions = []rkev1.GenericCondition{condition("Ready", "True", "", "")}
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("drover-0"), LeaseDurationSeconds: new(int32(15)),
		RenewTime: &metav1.MicroTime{Time: noon.Add(-time.Second)},
	}}
	w := World{
		Now: noon, Namespace: build.Namespace, Name: "demo", Lease: lease, Instances: []string{"here"},
		Cluster: cluster, Core: core, ControlPlane: controlPlane,
		Management: &mgmtv3.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: "c-m-demo"},
			Status: mgmtv3.ClusterStatus{Conditions: []rkev1.GenericCondition{condition("Connected", "True", "",
				"")}},
		},
		Infrastructure: &rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "demo"}},
		Decision:       &planner.Explanation{Step: "steady"}, Kubeconfig: true,
		Credentials: []Credential{{Reference: "cloud", Field: "spec.cloudCredentialSecretName", Exists: true}},
		Drivers: []Driver{{Name: "sim", Driver: &mgmtv3.NodeDriver{
			ObjectMeta: metav1.ObjectMeta{Name: "sim", CreationTimestamp: at(past)},
			Spec:       mgmtv3.NodeDriverSpec{Active: true, URL: "https://example.com/sim"},
			Status:     mgmtv3.NodeDriverStatus{AppliedURL: "https://example.com/sim"},
		}}},
		Machines: []Machine{machine("servers", "s-1", "ec"), machine("workers", "w-1", "w")},
		Secrets:  &redact.Secrets{},
	}
	for _, pool := range []string{"servers", "workers"} {
		labels := map[string]string{clusterv1.MachineDeploymentNameLabel: "demo-" + pool}
		w.Deployments = append(w.Deployments, &clusterv1.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "demo-" + pool,
				CreationTimestamp: at(past)}, Spec: clusterv1.MachineDeploymentSpec{Replicas: new(int32(1))},
		})
		w.Sets = append(w.Sets,
			&clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "demo-" + pool + "-x",
				Labels: labels}})
	}
	return w
}

func machine(pool, name, roles string) Machine {
	object := build.Machine("demo", name, roles, build.WithNode("node-"+name))
	object.CreationTimestamp = at(past)
	object.Labels[rkev1.MachinePoolNameLabel], object.Labels[rkev1.MachineIDLabel] = pool, "id-of-"+name
	object.Status.Conditions = []metav1.Condition{meta("InfrastructureReady", "True", "", ""),
		meta("NodeHealthy", "True", "", "")}
	bootstrap := build.Bootstrap(object)
	bootstrap.CreationTimestamp = at(past)
	bootstrap.Status.DataSecretName = new(name + "-machine-bootstrap")
	probes := map[string]plan.Probe{"kubelet": {Name: "kubelet"}}
	return Machine{
		Machine: object, Bootstrap: bootstrap, TokenUsed: past,
		Host: &Host{
			ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: name, CreationTimestamp: at(past)},
			Kind:       "SimMachine", Driven: true, ProviderID: "sim://" + name,
			Status: rkev1.RKEMachineStatus{Conditions: []rkev1.GenericCondition{condition("CreateJob", "True", "", ""),
				condition("Ready", "True", "", "")}},
		},
		Known: &planner.Machine{Name: name, Plan: &planner.PlanSecret{DeliveredAt: past, State: nodeplan.State{
			PlanExists: true, InSync: true, Healthy: true, Plan: plan.NodePlan{Probes: probes}, Checksum: "c",
			AppliedChecksum: "c",
			LastApplyTime:   past.Format(time.UnixDate),
			ProbeStatuses:   map[string]plan.ProbeStatus{"kubelet": {Healthy: true}},
		}}},
		Explained: &planner.ExplainedMachine{Name: name, Plan: "applied"},
	}
}

func condition(kind, status, reason, message string) rkev1.GenericCondition {
	return rkev1.GenericCondition{Type: kind, Status: status, Reason: reason, Message: message,
		LastUpdateTime: past.Format(time.RFC3339)}
}

func meta(kind, status, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message,
		LastTransitionTime: at(past)}
}

// unhosted resets a machine to the time when a Job creates its host.
func (m *Machine) unhosted() {
	m.Status.NodeRef, m.Status.Conditions, m.Labels[rkev1.MachineIDLabel] = clusterv1.MachineNodeReference{}, nil, ""
	m.Host.ProviderID, m.TokenUsed = "", time.Time{}
	m.Host.Status.Conditions = []rkev1.GenericCondition{condition("CreateJob", "Unknown", "Creating", ""),
		condition("Ready", "False", "Creating", "Creating the host")}
	m.unplanned()
	m.Known.Plan.State.Plan, m.Known.Plan.State.PlanExists = plan.NodePlan{}, false
	m.Job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: m.Name + "-machine-provision",
		CreationTimestamp: at(noon.Add(-5 * time.Minute))}}
	m.Pods = []*corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: m.Name + "-pod", CreationTimestamp: at(noon.Add(-5 * time.Minute))}}}
}

// unplanned resets a machine to the time before its agent has reported on the plan.
func (m *Machine) unplanned() {
	m.Status.NodeRef = clusterv1.MachineNodeReference{}
	m.Known.Plan.DeliveredAt = noon.Add(-time.Minute)
	state := &m.Known.Plan.State
	state.InSync, state.AppliedChecksum, state.LastApplyTime, state.ProbeStatuses = false, "", "", nil
}

func (w *World) of(name string) *Machine {
	for i := range w.Machines {
		if w.Machines[i].Name == name {
			return &w.Machines[i]
		}
	}
	return nil
}
