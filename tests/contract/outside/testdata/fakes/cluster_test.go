package fakes

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/provisioningcluster"
	"github.com/drover-io/drover/pkg/controllers/rkecluster"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/kube/access"
)

// provisioning has one Cluster with one pool and no children yet.
type provisioning struct {
	*world
	clusters *table[*provv1.Cluster]
	capi     *table[*clusterv1.Cluster]
	sets     *sets
}

func newProvisioning(t *testing.T) *provisioning {
	t.Helper()
	p := &provisioning{world: newWorld(t)}
	w := p.world
	config := &unstructured.Unstructured{Object: map[string]any{"image": "i"}}
	config.SetAPIVersion("rke-machine-config.cattle.io/v1")
	config.SetKind("PodConfig")
	config.SetNamespace(namespace)
	config.SetName("nc")

	d := provisioningcluster.Deps{
		Access: access.New(
			access.Options{}), InstanceID: instance, Now: func() time.Time { return now }, DynamicKinds: newKinds(w,
			config),
		Token: func() (string, error) { return "q5wzxk7d", nil },
	}
	d.ManagementClusters, _ = clusterScoped[*mgmtv3.Cluster, *mgmtv3.ClusterList](w, "management Cluster")
	d.Clusters, p.clusters = namespaced[*provv1.Cluster, *provv1.ClusterList](w, "Cluster", &provv1.Cluster{
		ObjectMeta: meta("demo"),
		Spec: provv1.ClusterSpec{
			KubernetesVersion: "v1.36.2+k3s1",
			RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{{
				Name: "pool1", EtcdRole: true, ControlPlaneRole: true,
				NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: "nc"},
			}}},
		},
	})
	d.CAPIClusters, p.capi = namespaced[*clusterv1.Cluster, *clusterv1.ClusterList](w, "CAPI Cluster")
	d.Machines, _ = namespaced[*clusterv1.Machine, *clusterv1.MachineList](w, "Machine")
	d.MachineDeployments, _ = namespaced[*clusterv1.MachineDeployment, *clusterv1.MachineDeploymentList](w,
		"MachineDeployment")
	d.ControlPlanes, _ = namespaced[*rkev1.RKEControlPlane, *rkev1.RKEControlPlaneList](w, "RKEControlPlane")
	d.Snapshots, _ = namespaced[*rkev1.ETCDSnapshot, *rkev1.ETCDSnapshotList](w, "ETCDSnapshot")
	d.Secrets, _ = namespaced[*corev1.Secret, *corev1.SecretList](w, "Secret")
	d.PodSecurityTemplates, _ = clusterScoped[*mgmtv3.PodSecurityAdmissionConfigurationTemplate,
		*mgmtv3.PodSecurityAdmissionConfigurationTemplateList](w, "PodSecurityAdmissionConfigurationTemplate")
	d.DynamicSchemas, _ = clusterScoped[*mgmtv3.DynamicSchema, *mgmtv3.DynamicSchemaList](w, "DynamicSchema",
		&mgmtv3.DynamicSchema{
			ObjectMeta: metav1.ObjectMeta{Name: "podconfig"},
			Spec:       mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"image": {Type: "string"}}},
		})
	p.sets = newSets(w)
	d.Apply = p.sets
	must(t, provisioningcluster.Register(t.Context(), d))
	return p
}

func (p *provisioning) pass() error {
	p.Helper()
	return p.clusters.handle("rke-cluster", namespace, "demo")
}

func TestProvisioningCluster(t *testing.T) {
	p := newProvisioning(t)
	must(t, p.pass())
	var made []string
	for _, obj := range p.sets.objs {
		made = append(made, obj.GetObjectKind().GroupVersionKind().Kind)
	}
	if len(p.writes) != 6 || !strings.HasPrefix(p.writes[4], "apply rke-cluster demo, ") {
		t.Fatalf("the writes are %v", p.writes)
	}
	p.wantWrites("a new Cluster", "patch Cluster demo", "update status Cluster demo",
		"apply cluster-create c-m-q5wzxk7d, c-m-q5wzxk7d, default-token, system",
		"update PodConfig nc", p.writes[4], "update status Cluster demo")
	for _, kind := range []string{"RKECluster", "RKEControlPlane", "Cluster", "RKEBootstrapTemplate",
		"PodMachineTemplate", "MachineDeployment"} {
		if !strings.Contains(" "+strings.Join(made, " ")+" ", " "+kind+" ") {
			t.Errorf("no %s among %v", kind, made)
		}
	}
	stored := p.clusters.must(namespace, "demo")
	if stored.Annotations["drover.io/instance"] != instance || !conditions.IsTrue(stored.Status.Conditions,
		provv1.ConditionRKECluster) {
		t.Errorf("the Cluster has no mark, or no condition RKECluster: %v, %+v", stored.Annotations,
			stored.Status.Conditions)
	}
	must(t, p.pass())
	p.wantWrites("a settled Cluster")

	p.clusters.must(namespace, "demo").Annotations["drover.io/instance"] = "another instance"
	p.sets.last = map[string]string{}
	must(t, p.pass())
	p.wantWrites("a Cluster of another instance")
}

func TestProvisioningCluster_BadInputIsClaimedAndCreatesNothing(t *testing.T) {
	p := newProvisioning(t)
	pool := &p.clusters.must(namespace, "demo").Spec.RKEConfig.MachinePools[0]
	pool.EtcdRole, pool.ControlPlaneRole = false, false
	must(t, p.pass())
	p.wantWrites("a pool without a role", "patch Cluster demo", "update status Cluster demo")
	condition := conditions.Get(p.clusters.must(namespace, "demo").Status.Conditions, provv1.ConditionRKECluster)
	if condition == nil || condition.Status != "False" ||
		!strings.Contains(condition.Message, "spec.rkeConfig.machinePools[0]") {
		t.Errorf("condition is %+v, want one that names the field", condition)
	}
}

func TestProvisioningCluster_RefusedWrite(t *testing.T) {
	p := newProvisioning(t)
	p.fail["patch Cluster demo"] = no
	if err := p.pass(); !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
	p.wantWrites("a Cluster without a mark gets no objects", "patch Cluster demo")
}

// infrastructure has one RKECluster that Cluster API has adopted.
func infrastructure(t *testing.T) (*world, *table[*rkev1.RKECluster]) {
	t.Helper()
	w := newWorld(t)
	infra := &rkev1.RKECluster{ObjectMeta: meta("demo")}
	infra.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster",
		Name: "demo"}}
	cluster := &provv1.Cluster{ObjectMeta: meta("demo")}
	cluster.Annotations = ours
	d := rkecluster.Deps{InstanceID: instance}
	var clusters *table[*rkev1.RKECluster]
	d.RKEClusters, clusters = namespaced[*rkev1.RKECluster, *rkev1.RKEClusterList](w, "RKECluster", infra)
	d.CAPIClusters, _ = namespaced[*clusterv1.Cluster, *clusterv1.ClusterList](w, "CAPI Cluster",
		&clusterv1.Cluster{ObjectMeta: meta("demo")})
	d.Clusters, _ = namespaced[*provv1.Cluster, *provv1.ClusterList](w, "Cluster", cluster)
	must(t, rkecluster.Register(t.Context(), d))
	return w, clusters
}

func TestRKECluster(t *testing.T) {
	w, clusters := infrastructure(t)
	must(t, clusters.handle("rke-cluster", namespace, "demo"))
	w.wantWrites("a new RKECluster", "update RKECluster demo", "update status RKECluster demo")
	stored := clusters.must(namespace, "demo")
	if done := stored.Status.Initialization.Provisioned; !stored.Spec.ControlPlaneEndpoint.IsValid() || done == nil ||
		!*done {
		t.Errorf("the endpoint or the status for Cluster API is missing: %+v", stored)
	}
	must(t, clusters.handle("rke-cluster", namespace, "demo"))
	w.wantWrites("a settled RKECluster")
}

func TestRKECluster_RefusedWrite(t *testing.T) {
	w, clusters := infrastructure(t)
	w.fail["update RKECluster demo"] = errors.New("connection refused")
	if err := clusters.handle("rke-cluster", namespace, "demo"); err == nil ||
		!strings.Contains(err.Error(), "fleet-default/demo: connection refused") {
		t.Errorf("error is %v", err)
	}
	w.wantWrites("without an endpoint, the status does not change", "update RKECluster demo")
}
