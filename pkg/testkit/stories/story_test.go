package stories

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/cluster"
	"github.com/drover-io/drover/pkg/controllers/provisioningcluster"
	"github.com/drover-io/drover/pkg/controllers/rkecluster"
	"github.com/drover-io/drover/pkg/controllers/rkecontrolplane"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	instance  = "instance-1"
	namespace = "fleet-default"
	// agent is the user agent of Drover's clients.
	agent = "drover"
)

// story is a world with the controllers of the cluster layer.
type story struct {
	t      *testing.T
	api    *memkube.Server
	core   *core
	prober *prober
	passes passes

	stop func()
}

// tell runs a story in virtual time, in parallel with others.
func tell(t *testing.T, f func(s *story)) {
	t.Helper()
	t.Parallel()
	told(t, f)
}

// told runs a story in virtual time.
func told(t *testing.T, f func(s *story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &story{t: t, api: newAPI(t), prober: &prober{}}
		s.core = newCore(t, s.api)
		s.start()
		defer func() { s.stop() }()
		f(s)
	})
}

func newAPI(t *testing.T) *memkube.Server {
	t.Helper()
	scheme, err := clients.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	return memkube.New(memkube.Options{
		Scheme: scheme, CRDs: append(definitions, driverKinds()...),
		Namespaces: []string{namespace, "cattle-global-data"},
		Permit:     rights.Permit(t, "drover/test"),
	})
}

// driverKinds are the kinds of a node driver named pod.
func driverKinds() []*apiextv1.CustomResourceDefinition {
	var definitions []*apiextv1.CustomResourceDefinition
	for kind, group := range map[string]string{
		"PodConfig": clients.MachineConfigGroup, "PodMachine": clients.MachineGroup,
		"PodMachineTemplate": clients.MachineGroup,
	} {
		lower := map[string]string{"PodConfig": "podconfig", "PodMachine": "podmachine",
			"PodMachineTemplate": "podmachinetemplate"}[kind]
		open := true
		definitions = append(definitions, &apiextv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: lower + "s." + group},
			Spec: apiextv1.CustomResourceDefinitionSpec{
				Group: group, Scope: apiextv1.NamespaceScoped,
				Names: apiextv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: lower + "s",
					Singular: lower},
				Versions: []apiextv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &apiextv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: &open,
					}},
				}},
			},
		})
	}
	return definitions
}

// start runs the controllers, as a new process would.
func (s *story) start() {
	s.t.Helper()
	c, err := clients.New(s.api.Config(agent), clients.Options{Version: "test"})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx := c.HandlerContext()
	clusters := counted{c.Provisioning.Cluster(), s}
	s.prober.wake = func(cluster types.NamespacedName) {
		c.Provisioning.Cluster().EnqueueAfter(cluster.Namespace, cluster.Name, 0)
	}
	mirror := cluster.New(ctx, cluster.Deps{
		Clusters: clusters, ManagementClusters: c.Management.Cluster(), ControlPlanes: c.RKE.RKEControlPlane(),
		Machines: c.CAPI.Machine(), Secrets: c.Core.Secret(), Prober: s.prober, InstanceID: instance,
	})
	for _, register := range []func() error{
		func() error {
			return provisioningcluster.Register(ctx, provisioningcluster.Deps{
				Access:   access.New(access.Options{}),
				Clusters: clusters, ManagementClusters: c.Management.Cluster(),
				CAPIClusters: c.CAPI.Cluster(), Machines: c.CAPI.Machine(),
				MachineDeployments: c.CAPI.MachineDeployment(), ControlPlanes: c.RKE.RKEControlPlane(),
				DynamicSchemas: c.Management.DynamicSchema(), Secrets: c.Core.Secret(), Namespaces: c.Core.Namespace(),
				PodSecurityTemplates: c.Management.PodSecurityAdmissionConfigurationTemplate(),
				Snapshots:            c.RKE.ETCDSnapshot(),
				DynamicKinds:         c.Dynamic, CRDs: c.CRDs.CustomResourceDefinition(), Apply: c.Apply,
				InstanceID: instance,
				Disconnect: mirror.Disconnect,
			})
		},
		mirror.Register,
		func() error {
			return rkecluster.Register(ctx, rkecluster.Deps{
				RKEClusters: c.RKE.RKECluster(), CAPIClusters: c.CAPI.Cluster(), Clusters: c.Provisioning.Cluster(),
				InstanceID: instance,
			})
		},
		func() error {
			return rkecontrolplane.Register(ctx, rkecontrolplane.Deps{
				ControlPlanes: c.RKE.RKEControlPlane(), Machines: c.CAPI.Machine(), Clusters: c.Provisioning.Cluster(),
				InstanceID: instance,
			})
		},
	} {
		if err := register(); err != nil {
			s.t.Fatal(err)
		}
	}
	workers, cancel := context.WithCancel(s.t.Context())
	if err := c.Start(workers); err != nil {
		s.t.Fatal(err)
	}
	s.stop = func() {
		cancel()
		c.Stop()
	}
}

// restart ends the process and starts a new one.
func (s *story) restart() {
	s.stop()
	s.api.Mend(agent)
	s.start()
}

// settle runs all controllers until nothing changes for ten virtual seconds.
func (s *story) settle() {
	s.t.Helper()
	for range 500 {
		before := s.api.Changes()
		pass(10 * time.Second)
		s.core.pass()
		synctest.Wait()
		if s.api.Changes() == before {
			return
		}
	}
	s.t.Fatal("never settles")
}

// pass lets virtual time pass and waits until all goroutines are idle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *story) add(objects ...runtime.Object) {
	s.t.Helper()
	if err := s.api.Add(objects...); err != nil {
		s.t.Fatal(err)
	}
}

// read returns the stored cluster, or nil if there is none.
func (s *story) read() *provv1.Cluster {
	s.t.Helper()
	found := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"}}
	exists, err := s.api.Get(found)
	if err != nil {
		s.t.Fatal(err)
	}
	if !exists {
		return nil
	}
	return found
}

// prober succeeds only when a story says so.
type prober struct {
	mu    sync.Mutex
	up    bool
	asked map[types.NamespacedName]bool
	wake  func(types.NamespacedName)
}

func (p *prober) Answered(cluster types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[types.NamespacedName]bool{}
	}
	p.asked[cluster] = true
	return p.up
}

func (p *prober) Forget(cluster types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, cluster)
}

func (p *prober) answer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up = true
	for cluster := range p.asked {
		p.wake(cluster)
	}
}

// demo is a cluster of one server and two workers as a user writes it.
func demo(edits ...func(*provv1.Cluster)) *provv1.Cluster {
	quantity := int32(2)
	made := &provv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
		Spec: provv1.ClusterSpec{
			KubernetesVersion: "v1.36.2+k3s1",
			RKEConfig: &provv1.RKEConfig{MachinePools: []provv1.RKEMachinePool{
				{Name: "server", EtcdRole: true, ControlPlaneRole: true,
					NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: "nc"}},
				{Name: "worker", WorkerRole: true, Quantity: &quantity,
					NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: "nc"}},
			}},
		},
	}
	for _, edit := range edits {
		edit(made)
	}
	return made
}

func machineConfig(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rke-machine-config.cattle.io/v1", "kind": "PodConfig", "image": "systemd",
		"metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}

func podSchema() *mgmtv3.DynamicSchema {
	return &mgmtv3.DynamicSchema{
		TypeMeta:   metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "DynamicSchema"},
		ObjectMeta: metav1.ObjectMeta{Name: "podconfig"},
		Spec:       mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"image": {Type: "string"}}},
	}
}

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}
