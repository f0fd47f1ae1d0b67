package fakes

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/controllers/planner"
	"github.com/drover-io/drover/pkg/controllers/plansecret"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/kube/access"
)

// planned has one machine that exists and has no plan.
type planned struct {
	*world
	controlPlanes *table[*rkev1.RKEControlPlane]
	machines      *table[*clusterv1.Machine]
	secrets       *table[*corev1.Secret]
}

func newPlanned(t *testing.T) *planned {
	t.Helper()
	p := &planned{world: newWorld(t)}
	w := p.world
	m := machine()
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io",
		Kind: "CustomMachine", Name: "m1"}
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineInfrastructureReadyCondition,
		Status: metav1.ConditionTrue}}
	d := planner.Deps{
		Access:     access.New(access.Options{}),
		InstanceID: instance, Now: func() time.Time { return now },
		Release:  func(v string) distro.Release { return distro.Release{Version: v, Known: true} },
		Settings: func() render.Settings { return render.Settings{} },
	}
	d.ProvisioningClusters, _ = namespaced[*provv1.Cluster, *provv1.ClusterList](w, "Cluster", cluster())
	d.ControlPlanes, p.controlPlanes = namespaced[*rkev1.RKEControlPlane, *rkev1.RKEControlPlaneList](w,
		"RKEControlPlane", controlPlane())
	d.Bootstraps, _ = namespaced[*rkev1.RKEBootstrap, *rkev1.RKEBootstrapList](w, "RKEBootstrap",
		&rkev1.RKEBootstrap{ObjectMeta: meta("m1")})
	d.Clusters, _ = namespaced[*clusterv1.Cluster, *clusterv1.ClusterList](w, "CAPI Cluster", capiCluster())
	d.Machines, p.machines = namespaced[*clusterv1.Machine, *clusterv1.MachineList](w, "Machine", m)
	d.ManagementClusters, _ = clusterScoped[*mgmtv3.Cluster, *mgmtv3.ClusterList](w, "management Cluster")
	d.Secrets, p.secrets = namespaced[*corev1.Secret, *corev1.SecretList](w, "Secret",
		&corev1.Secret{ObjectMeta: meta("m1-machine-plan"), Type: rkev1.SecretTypeMachinePlan})
	d.ConfigMaps, _ = namespaced[*corev1.ConfigMap, *corev1.ConfigMapList](w, "ConfigMap")
	d.Snapshots, _ = namespaced[*rkev1.ETCDSnapshot, *rkev1.ETCDSnapshotList](w, "ETCDSnapshot")
	must(t, planner.Register(t.Context(), d))
	return p
}

func (p *planned) pass() error {
	p.Helper()
	return p.controlPlanes.handle("planner", namespace, "demo")
}

func (p *planned) ready() string {
	c := conditions.Get(p.controlPlanes.must(namespace, "demo").Status.Conditions, rkev1.ConditionReady)
	if c == nil {
		return ""
	}
	return c.Status + " " + c.Message
}

func TestPlanner(t *testing.T) {
	p := newPlanned(t)
	must(t, p.pass())
	p.wantWrites("tokens come first", "create Secret demo-rke-state", "update status RKEControlPlane demo")
	must(t, p.pass())
	p.wantWrites("the ticket, the mark, the plan", "update status RKEControlPlane demo", "patch Machine m1",
		"update Secret m1-machine-plan", "patch status Machine m1")

	var delivered plan.NodePlan
	must(t, json.Unmarshal(p.secrets.must(namespace, "m1-machine-plan").Data["plan"], &delivered))
	if len(delivered.Instructions) == 0 || !strings.Contains(delivered.Instructions[0].Image, "k3s") {
		t.Errorf("the plan installs nothing: %+v", delivered.Instructions)
	}
	token := string(p.secrets.must(namespace, "demo-rke-state").Data["serverToken"])
	found := false
	for _, file := range delivered.Files {
		found = found || strings.HasSuffix(file.Path, "config.yaml.d/50-rancher.yaml")
	}
	if token == "" || !found {
		t.Errorf("token of %d bytes, files of the plan: %d", len(token), len(delivered.Files))
	}
	if p.machines.must(namespace, "m1").Labels[rkev1.InitNodeLabel] != "true" {
		t.Error("the first server is not the init node")
	}
	if got := p.ready(); got !=
		"Unknown configuring bootstrap node(s) m1: waiting for agent to check in and apply initial plan" {
		t.Errorf("Ready is %q", got)
	}
	must(t, p.pass())
	p.wantWrites("no change")
}

func TestPlanner_RefusedPlan(t *testing.T) {
	p := newPlanned(t)
	must(t, p.pass())
	p.writes, p.fail["update Secret m1-machine-plan"] = nil, no
	if err := p.pass(); !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
	if got := p.ready(); got != "False Cannot carry out the decision: the API server answered Forbidden" {
		t.Errorf("Ready is %q", got)
	}
}

func TestPlanner_ForeignCluster(t *testing.T) {
	p := newPlanned(t)
	p.controlPlanes.set(&rkev1.RKEControlPlane{ObjectMeta: meta("foreign"), Spec: controlPlane().Spec})
	must(t, p.controlPlanes.handle("planner", namespace, "foreign"))
	p.wantWrites("a control plane with a foreign Cluster")
}

// reporting has one machine whose agent has applied its plan.
type reporting struct {
	*world
	machines *table[*clusterv1.Machine]
	secrets  *table[*corev1.Secret]
	// later is how much time has passed.
	later time.Duration
}

func newReporting(t *testing.T, report map[string]string) *reporting {
	t.Helper()
	r := &reporting{world: newWorld(t)}
	w := r.world
	raw, err := nodeplan.Encode(plan.NodePlan{Probes: map[string]plan.Probe{"kubelet": {}}})
	must(t, err)
	data := map[string][]byte{"plan": raw}
	for key, value := range report {
		data[key] = []byte(strings.ReplaceAll(value, "CHECKSUM", nodeplan.Checksum(raw)))
	}
	d := plansecret.Deps{InstanceID: instance, Now: func() time.Time { return now.Add(r.later) }}
	d.Secrets, r.secrets = namespaced[*corev1.Secret, *corev1.SecretList](w, "Secret",
		&corev1.Secret{ObjectMeta: meta("m1-machine-plan"), Type: rkev1.SecretTypeMachinePlan, Data: data})
	d.Machines, r.machines = namespaced[*clusterv1.Machine, *clusterv1.MachineList](w, "Machine", machine())
	d.ControlPlanes = mockCache(newTable(w, "RKEControlPlane", []*rkev1.RKEControlPlane{controlPlane()}))
	d.ProvisioningClusters = mockCache(newTable(w, "Cluster", []*provv1.Cluster{cluster()}))
	must(t, plansecret.Register(t.Context(), d))
	return r
}

func (r *reporting) pass() error {
	r.Helper()
	return r.secrets.handle("plan-secret", namespace, "m1-machine-plan")
}

func TestPlanSecret(t *testing.T) {
	r := newReporting(t,
		map[string]string{"applied-checksum": "CHECKSUM", "probe-statuses": `{"kubelet":{"healthy":true}}`})
	must(t, r.pass())
	r.wantWrites("a plan was applied, and its probes pass", "update Secret m1-machine-plan")
	r.later = time.Minute
	must(t, r.pass())
	r.wantWrites("no other write to the Machine takes the condition along", "patch status Machine m1")
	if r.secrets.must(namespace, "m1-machine-plan").Annotations[rkev1.PlanProbesPassedAnnotation] == "" {
		t.Error("the Secret does not record that the probes pass")
	}
	if !conditions.IsTrueMeta(r.machines.must(namespace, "m1").Status.Conditions, rkev1.ConditionPlanApplied) {
		t.Errorf("conditions are %+v", r.machines.must(namespace, "m1").Status.Conditions)
	}
	must(t, r.pass())
	r.wantWrites("no change")
}

func TestPlanSecret_FailedPlan(t *testing.T) {
	r := newReporting(t, map[string]string{"failed-checksum": "CHECKSUM", "failure-count": "1", "max-failures": "1",
		"failed-output": "top-secret"})
	must(t, r.pass())
	r.wantWrites("a plan failed for good", "patch status Machine m1")
	condition := conditions.GetMeta(r.machines.must(namespace, "m1").Status.Conditions, rkev1.ConditionPlanApplied)
	if condition == nil || condition.Status != "False" || !strings.Contains(condition.Message, "k3s.service") ||
		strings.Contains(condition.Message, "top-secret") {
		t.Errorf("condition is %+v", condition)
	}
}

func TestPlanSecret_RefusedWrite(t *testing.T) {
	r := newReporting(t, map[string]string{"applied-checksum": "CHECKSUM"})
	must(t, r.pass())
	r.wantWrites("the copy of the plan waits for the probes")
	r.fail["update Secret m1-machine-plan"], r.later = no, time.Minute
	if err := r.pass(); !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
}
