package fakes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/bootstrap"
	"github.com/drover-io/drover/pkg/controllers/dynamicschema"
	"github.com/drover-io/drover/pkg/controllers/machineprovision"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/kube/access"
)

var machineKind = schema.GroupVersionKind{Group: "rke-machine.cattle.io", Version: "v1", Kind: "DigitaloceanMachine"}

// The objects of a cluster whose infrastructure is ready, with one machine.
func cluster() *provv1.Cluster {
	c := &provv1.Cluster{ObjectMeta: meta("demo"), Status: provv1.ClusterStatus{ClusterName: "c-m-q5wzxk7d"}}
	c.Annotations = map[string]string{"drover.io/instance": instance}
	return c
}

func capiCluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: meta("demo"),
		Spec: clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: "demo",
		}},
		Status: clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{
			InfrastructureProvisioned: new(true)}},
	}
}

func controlPlane() *rkev1.RKEControlPlane {
	cp := &rkev1.RKEControlPlane{
		ObjectMeta: meta("demo"),
		Spec: rkev1.RKEControlPlaneSpec{KubernetesVersion: "v1.36.2+k3s1", ClusterName: "demo",
			ManagementClusterName: "c-m-q5wzxk7d"},
	}
	cp.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster",
		Name: "demo", Controller: new(true)}}
	return cp
}

func machine() *clusterv1.Machine {
	m := &clusterv1.Machine{
		ObjectMeta: meta("m1"),
		Spec: clusterv1.MachineSpec{
			ClusterName: "demo",
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: "m1"}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: machineKind.Group,
				Kind: machineKind.Kind, Name: "m1"},
		},
	}
	m.Labels = map[string]string{
		clusterv1.ClusterNameLabel: "demo", "rke.cattle.io/etcd-role": "true",
		"rke.cattle.io/control-plane-role": "true", "rke.cattle.io/worker-role": "true",
	}
	return m
}

func ofMachine() []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m1",
		UID: "uid-m1", Controller: new(true)}}
}

// unreachable is a connection to clusters that always fails.
type unreachable struct{}

func (unreachable) Client(context.Context, types.NamespacedName) (kubernetes.Interface, error) {
	return nil, errors.New("connection refused")
}

type booting struct {
	*world
	bootstraps *table[*rkev1.RKEBootstrap]
	secrets    *table[*corev1.Secret]
	accounts   *table[*corev1.ServiceAccount]
}

func newBooting(t *testing.T) *booting {
	t.Helper()
	b := &booting{world: newWorld(t)}
	w := b.world
	boot := &rkev1.RKEBootstrap{ObjectMeta: meta("m1"), Spec: rkev1.RKEBootstrapSpec{ClusterName: "demo"}}
	boot.Labels, boot.OwnerReferences = map[string]string{clusterv1.ClusterNameLabel: "demo"}, ofMachine()
	d := bootstrap.Deps{
		Apply: newSets(w), Downstream: unreachable{}, InstanceID: instance, Now: func() time.Time { return now },
		Settings: bootstrap.Settings{ServerURL: "https://drover.example.org",
			LinuxInstaller: "#!/bin/sh\necho install\n"},
	}
	d.Bootstraps, b.bootstraps = namespaced[*rkev1.RKEBootstrap, *rkev1.RKEBootstrapList](w, "RKEBootstrap", boot)
	d.ControlPlanes, _ = namespaced[*rkev1.RKEControlPlane, *rkev1.RKEControlPlaneList](w, "RKEControlPlane",
		controlPlane())
	d.Machines, _ = namespaced[*clusterv1.Machine, *clusterv1.MachineList](w, "Machine", machine())
	d.CAPIClusters, _ = namespaced[*clusterv1.Cluster, *clusterv1.ClusterList](w, "CAPI Cluster", capiCluster())
	d.Clusters, _ = namespaced[*provv1.Cluster, *provv1.ClusterList](w, "Cluster", cluster())
	d.Secrets, b.secrets = namespaced[*corev1.Secret, *corev1.SecretList](w, "Secret")
	d.ServiceAccounts, b.accounts = namespaced[*corev1.ServiceAccount, *corev1.ServiceAccountList](w, "ServiceAccount")
	must(t, bootstrap.Register(t.Context(), d))
	return b
}

func (b *booting) pass() error {
	b.Helper()
	return b.bootstraps.handle("rke-bootstrap", namespace, "m1")
}

func TestBootstrap(t *testing.T) {
	b := newBooting(t)
	must(t, b.pass())
	b.wantWrites("a new machine gets its identity and its plan Secret",
		"apply rke-bootstrap m1-machine-plan, m1-machine-plan, m1-machine-plan, m1-machine-bootstrap",
		"create Secret m1-machine-plan")
	must(t, b.pass())
	b.wantWrites("without the account, no object follows")

	account := &corev1.ServiceAccount{ObjectMeta: meta("m1-machine-bootstrap")}
	b.accounts.set(account)
	must(t, b.pass())
	b.wantWrites("the account gets a token", "create Secret m1-machine-bootstrap-token")
	must(t, b.pass())
	b.wantWrites("without the token's data, no object follows")

	token := b.secrets.must(namespace, "m1-machine-bootstrap-token")
	token.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	token.Data = map[string][]byte{"token": []byte("of-the-machine")}
	must(t, b.pass())
	b.wantWrites("the machine gets its script", "create Secret m1-machine-bootstrap", "update status RKEBootstrap m1")
	script := string(b.secrets.must(namespace, "m1-machine-bootstrap").Data["value"])
	for _, want := range []string{"https://drover.example.org", "CATTLE_TOKEN=", "echo install"} {
		if !strings.Contains(script, want) {
			t.Errorf("the script has no %q", want)
		}
	}
	if strings.Contains(script, "of-the-machine") {
		t.Error("the script contains the token, but needs only its digest")
	}
	status := b.bootstraps.must(namespace, "m1").Status
	if status.DataSecretName == nil || *status.DataSecretName != "m1-machine-bootstrap" {
		t.Errorf("the status has no script for Cluster API: %+v", status)
	}
	must(t, b.pass())
	b.wantWrites("a machine with all objects")
}

func TestBootstrap_RefusedWrite(t *testing.T) {
	b := newBooting(t)
	b.fail["create Secret m1-machine-plan"] = no
	if err := b.pass(); !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
	delete(b.fail, "create Secret m1-machine-plan")
	b.writes = nil
	must(t, b.pass())
	b.wantWrites("the write is retried", "create Secret m1-machine-plan")
}

type making struct {
	*world
	kinds   *kinds
	jobs    *table[*batchv1.Job]
	secrets *table[*corev1.Secret]
}

func newMaking(t *testing.T) *making {
	t.Helper()
	m := &making{world: newWorld(t)}
	w := m.world
	infra := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"region": "fra1", "common": map[string]any{"cloudCredentialSecretName": "cattle-global-data:cc-abcde"},
	}}}
	infra.SetGroupVersionKind(machineKind)
	infra.SetNamespace(namespace)
	infra.SetName("m1")
	infra.SetUID("uid-infra")
	infra.SetResourceVersion("1")
	infra.SetOwnerReferences(ofMachine())
	infra.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "demo"})
	m.kinds = newKinds(w, infra)

	owner := machine()
	owner.Spec.Bootstrap.DataSecretName = new("m1-machine-bootstrap")
	boot := &rkev1.RKEBootstrap{ObjectMeta: meta("m1"),
		Status: rkev1.RKEBootstrapStatus{DataSecretName: new("m1-machine-bootstrap")}}
	credential := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cattle-global-data", Name: "cc-abcde",
		Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: namespace + "/demo"},
	}, Data: map[string][]byte{
		"digitaloceancredentialConfig-accessToken": []byte("top-secret"),
	}}
	set := newSets(w)
	d := machineprovision.Deps{
		Access:  access.New(access.Options{}),
		Dynamic: m.kinds, Apply: set, ApplySecrets: secretSets{set}, InstanceID: instance, Now: func() time.Time {
			return now
		},
		Settings: func() machinejob.Settings {
			return machinejob.Settings{Image: "rancher/machine:test", CreateDeadline: time.Hour}
		},
	}
	d.Machines, _ = namespaced[*clusterv1.Machine, *clusterv1.MachineList](w, "Machine", owner)
	d.CAPIClusters, _ = namespaced[*clusterv1.Cluster, *clusterv1.ClusterList](w, "CAPI Cluster", capiCluster())
	d.Clusters, _ = namespaced[*provv1.Cluster, *provv1.ClusterList](w, "Cluster", cluster())
	d.Bootstraps, _ = namespaced[*rkev1.RKEBootstrap, *rkev1.RKEBootstrapList](w, "RKEBootstrap", boot)
	d.NodeDrivers, _ = clusterScoped[*mgmtv3.NodeDriver, *mgmtv3.NodeDriverList](w, "NodeDriver", &mgmtv3.NodeDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "digitalocean"}, Spec: mgmtv3.NodeDriverSpec{Active: true, URL: "local://"},
	})
	d.Jobs, m.jobs = namespaced[*batchv1.Job, *batchv1.JobList](w, "Job")
	d.Pods, _ = namespaced[*corev1.Pod, *corev1.PodList](w, "Pod")
	d.Secrets, m.secrets = namespaced[*corev1.Secret, *corev1.SecretList](w, "Secret", credential)
	must(t, machineprovision.Register(t.Context(), d))
	if m.kinds.handler == nil || !m.kinds.matches(machineKind) ||
		m.kinds.matches(schema.GroupVersionKind{Group: machineKind.Group, Version: "v1",
			Kind: "DigitaloceanMachineTemplate"}) {
		t.Fatal("the handler does not only handle machines")
	}
	return m
}

func (m *making) pass() error {
	return m.kinds.handler(machineKind, namespace+"/m1", m.kinds.rows[namespace+"/m1"])
}

// condition returns "status reason message" of a condition of the machine.
func (m *making) condition(kind string) string {
	m.Helper()
	list, _, err := unstructured.NestedSlice(m.kinds.must(namespace, "m1").Object, "status", "conditions")
	must(m.T, err)
	for _, one := range list {
		fields, _ := one.(map[string]any)
		if fields["type"] == kind {
			status, _ := fields["status"].(string)
			reason, _ := fields["reason"].(string)
			message, _ := fields["message"].(string)
			return strings.TrimSpace(strings.Join([]string{status, reason, message}, " "))
		}
	}
	return ""
}

func TestMachineProvision(t *testing.T) {
	m := newMaking(t)
	must(t, m.pass())
	m.wantWrites("the machine is marked first", "update DigitaloceanMachine m1")
	must(t, m.pass())
	m.wantWrites("the status has the intent before any object exists", "update status DigitaloceanMachine m1")
	must(t, m.pass())
	if len(m.writes) != 5 {
		t.Fatalf("the writes are %v", m.writes)
	}
	m.wantWrites("the Secrets of the Job, and the Job", "create Secret m1-machine-state", m.writes[1], m.writes[2],
		"create Job m1-machine-provision",
		"update status DigitaloceanMachine m1")
	must(t, m.pass())
	m.wantWrites("a running Job is not changed")
	if got := m.condition("Ready"); !strings.HasPrefix(got,
		"False Creating Creating DigitaloceanMachine fleet-default/m1") {
		t.Errorf("Ready is %q", got)
	}

	job := m.jobs.must(namespace, "m1-machine-provision")
	if strings.Contains(job.String(), "top-secret") {
		t.Error("the Job contains the credential")
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now)}}
	must(t, m.pass())
	m.wantWrites("the Job has ended", "update status DigitaloceanMachine m1")
	if got := m.condition("Ready"); !strings.HasPrefix(got, "True") {
		t.Errorf("Ready is %q", got)
	}
	must(t, m.pass())
	m.wantWrites("a machine that waits for its node")
}

func TestMachineProvision_MissingCredential(t *testing.T) {
	m := newMaking(t)
	delete(m.secrets.rows, "cattle-global-data/cc-abcde")
	must(t, m.pass())
	must(t, m.pass())
	m.wantWrites("no Job and no Secret is created", "update DigitaloceanMachine m1",
		"update status DigitaloceanMachine m1")
	if got := m.condition("Ready"); !strings.HasPrefix(got, "False AccessDenied Secret cattle-global-data/cc-abcde") {
		t.Errorf("Ready is %q, want the credential's name", got)
	}
}

func TestMachineProvision_RefusedJob(t *testing.T) {
	m := newMaking(t)
	must(t, m.pass())
	must(t, m.pass())
	m.writes, m.fail["create Job m1-machine-provision"] = nil, no
	if err := m.pass(); !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
	if len(m.writes) != 4 || m.writes[3] != "create Job m1-machine-provision" {
		t.Errorf("the writes are %v: a Job that was not created must not be reported", m.writes)
	}
}

type schemas struct {
	*world
	schemas *table[*mgmtv3.DynamicSchema]
	crds    *table[*apiextv1.CustomResourceDefinition]
	kinds   *kinds
}

const setOfPod = "apply dynamic-driver-crd podconfigs.rke-machine-config.cattle.io, " +
	"podmachines.rke-machine.cattle.io, podmachinetemplates.rke-machine.cattle.io"

func newSchemas(t *testing.T) *schemas {
	t.Helper()
	s := &schemas{world: newWorld(t)}
	w := s.world
	s.kinds = newKinds(w)
	d := dynamicschema.Deps{Objects: s.kinds, Apply: newSets(w)}
	d.DynamicSchemas, s.schemas = clusterScoped[*mgmtv3.DynamicSchema, *mgmtv3.DynamicSchemaList](w, "DynamicSchema",
		&mgmtv3.DynamicSchema{
			ObjectMeta: metav1.ObjectMeta{Name: "podconfig"},
			Spec:       mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"image": {Type: "string"}}},
		},
		&mgmtv3.DynamicSchema{
			ObjectMeta: metav1.ObjectMeta{Name: "nodetemplateconfig"},
			Spec: mgmtv3.DynamicSchemaSpec{
				ResourceFields: map[string]mgmtv3.Field{"podConfig": {Type: "podconfig"}}},
		})
	d.CRDs, s.crds = clusterScoped[*apiextv1.CustomResourceDefinition, *apiextv1.CustomResourceDefinitionList](w,
		"CustomResourceDefinition")
	must(t, dynamicschema.Register(t.Context(), d))
	return s
}

func (s *schemas) pass() error {
	s.Helper()
	return s.schemas.handle("dynamic-driver-crd", "", "podconfig")
}

func TestDynamicSchema(t *testing.T) {
	s := newSchemas(t)
	must(t, s.pass())
	s.wantWrites("a driver's kinds are defined", setOfPod)
	must(t, s.pass())
	s.wantWrites("once")

	// The driver is removed while it has machines.
	s.crds.set(&apiextv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "podmachines.rke-machine.cattle.io", Annotations: map[string]string{
			"objectset.rio.cattle.io/id":         "dynamic-driver-crd",
			"objectset.rio.cattle.io/owner-gvk":  mgmtv3.SchemeGroupVersion.WithKind("DynamicSchema").String(),
			"objectset.rio.cattle.io/owner-name": "podconfig",
		}},
		Spec: apiextv1.CustomResourceDefinitionSpec{
			Group: "rke-machine.cattle.io", Names: apiextv1.CustomResourceDefinitionNames{Kind: "PodMachine"},
			Versions: []apiextv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}},
		},
	})
	delete(s.schemas.rows, "/podconfig")
	left := &unstructured.Unstructured{}
	left.SetGroupVersionKind(schema.GroupVersionKind{Group: "rke-machine.cattle.io", Version: "v1", Kind: "PodMachine"})
	left.SetNamespace(namespace)
	left.SetName("left")
	s.kinds.set(left)
	s.after = nil
	must(t, s.pass())
	s.wantWrites("CRDs stay while objects of them exist")
	if len(s.after) == 0 {
		t.Error("the handler does not requeue: the last object's deletion is no event of the schema")
	}
	delete(s.kinds.rows, namespace+"/left")
	must(t, s.pass())
	s.wantWrites("the last object is deleted", "purge dynamic-driver-crd podconfig")
}

func TestDynamicSchema_RefusedWrite(t *testing.T) {
	s := newSchemas(t)
	s.fail[setOfPod] = no
	if err := s.pass(); !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
}
