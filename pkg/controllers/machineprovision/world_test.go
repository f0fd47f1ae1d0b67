package machineprovision_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/bootstrap"
	"github.com/drover-io/drover/pkg/controllers/dynamicschema"
	"github.com/drover-io/drover/pkg/controllers/machinenodelookup"
	"github.com/drover-io/drover/pkg/controllers/machineprovision"
	"github.com/drover-io/drover/pkg/controllers/nodedriver"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/driverjob"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/access"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/observe/metrics"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/packed"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	namespace = "fleet-default"
	manager   = "drover/manager"
	credShort = "cc-abcde"
)

var (
	machineKind = schema.GroupVersionKind{Group: "rke-machine.cattle.io", Version: "v1", Kind: "DigitaloceanMachine"}
	jobKind     = batchv1.SchemeGroupVersion.WithKind("Job")
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// world is an in-memory management cluster with the controllers that create machines. step simulates Cluster API, the
// cloud and the downstream cluster, each with the minimum of its contract.
type world struct {
	*testing.T
	api   *memkube.Server
	c     *clients.Clients // the client of the tests
	infra dynamic.ResourceInterface
	nodes *fake.Clientset
	stop  func()

	// patience is how many steps of half a second without a change count as settled.
	patience int
	// cut is closed when the manager was killed; another one then continues.
	cut <-chan struct{}
	// fail makes Jobs fail with this message; hold keeps them from ending.
	fail string
	hold bool
	// output is the log of each pod; empty means that no log can be read.
	output string
	// earlier binds the Role of the operator in any case, like earlier releases.
	earlier bool
	// settings are the installation's settings.
	settings machinejob.Settings
	metrics  *prometheus.Registry
	// made and removed count the cloud's actions, by instance.
	made, removed map[string]int
	// given are the credentials that the drivers were given.
	given []string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tell runs a test in virtual time, with the controllers and a cluster whose infrastructure is ready.
func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	prepared(t, func(*memkube.Server) {}, f)
}

// prepared runs a test whose API server is prepared before the controllers start.
func prepared(t *testing.T, prepare func(*memkube.Server), f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		prepare(w.api)
		w.metrics = prometheus.NewRegistry()
		w.start()
		defer func() {
			w.stop()
			w.c.Stop()
			w.sleep(time.Minute)
			disruptions.Check(t, w.metrics)
		}()
		f(w)
	})
}

// counts fails unless exactly one disruption was counted, with that cause.
func (w *world) counts(cause disruption.Cause) {
	w.Helper()
	counts, err := disruptions.Gathered(w.metrics)
	must(w.T, err)
	for of, n := range counts {
		if want := map[bool]int{true: 1}[of == cause]; n != want {
			w.Errorf("%d disruptions by %s, want %d", n, of, want)
		}
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme, err := clients.NewScheme()
	must(t, err)
	definitions, err := crds.All()
	must(t, err)
	api := memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions,
		Namespaces: []string{namespace, "cattle-global-data"}, Permit: rights.Permit(t, manager)})
	w := &world{
		T: t, api: api, patience: 45, nodes: fake.NewClientset(), made: map[string]int{}, removed: map[string]int{},
		settings: machinejob.Settings{Image: "rancher/machine:test", CreateDeadline: time.Hour,
			RemoveDeadline: time.Hour},
	}
	w.c, err = clients.New(api.Config("players"), clients.Options{Version: "players"})
	must(t, err)
	live, err := dynamic.NewForConfig(api.Config("drover/players"))
	must(t, err)
	w.infra = live.Resource(machineKind.GroupVersion().WithResource("digitaloceanmachines")).Namespace(namespace)
	for _, seed := range driverschema.Seeds() {
		if seed.Name == "digitalocean" { // the other kinds only take time
			_, err := w.c.Management.NodeDriver().Create(seed)
			must(t, err)
		}
	}
	w.addCluster()
	return w
}

func (w *world) addCluster() {
	w.Helper()
	yes := true
	must(w.T, w.api.Add(
		&clusterv1.Cluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
			Spec: clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: "demo",
			}},
			Status: clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{
				InfrastructureProvisioned: &yes}},
		},
		&rkev1.RKEControlPlane{
			TypeMeta:   metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "RKEControlPlane"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"},
			Spec: rkev1.RKEControlPlaneSpec{
				ClusterName: "demo", ManagementClusterName: "c-m-abcdefgh", KubernetesVersion: "v1.36.2+k3s1",
				AgentEnvVars: []rkev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}},
			},
		},
		&corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: credShort,
				Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: namespace + "/*"}},
			Data: map[string][]byte{"digitaloceancredentialConfig-accessToken": []byte("top-secret")},
		},
	))
}

// addMachine creates what Cluster API creates for a replica of a pool.
func (w *world) addMachine(name string, etcd bool) {
	w.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: "demo", rkev1.ClusterNameLabel: "demo",
		rkev1.WorkerRoleLabel: "true"}
	if etcd {
		labels[rkev1.EtcdRoleLabel] = "true"
	}
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels,
			Finalizers: []string{clusterv1.MachineFinalizer}},
		Spec: clusterv1.MachineSpec{
			ClusterName: "demo",
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: name}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: machineKind.Group,
				Kind: machineKind.Kind, Name: name},
		},
	}
	machine, err := w.c.CAPI.Machine().Create(machine)
	must(w.T, err)
	owner := []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name,
		UID: machine.UID, Controller: new(true)}}
	_, err = w.c.RKE.RKEBootstrap().Create(&rkev1.RKEBootstrap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, OwnerReferences: owner},
		Spec:       rkev1.RKEBootstrapSpec{ClusterName: "demo"},
	})
	must(w.T, err)
	infra := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"region": "fra1", "monitoring": true, "userdata": "#cloud-config\n",
		"common": map[string]any{"cloudCredentialSecretName": "cattle-global-data:" + credShort},
	}}}
	infra.SetGroupVersionKind(machineKind)
	infra.SetNamespace(namespace)
	infra.SetName(name)
	infra.SetLabels(labels)
	infra.SetOwnerReferences(owner)
	_, err = w.infra.Create(w.Context(), infra, metav1.CreateOptions{})
	must(w.T, err)
}

// downstream is the cluster that machines join.
type downstream struct{ nodes *fake.Clientset }

func (d downstream) Client(context.Context, types.NamespacedName) (kubernetes.Interface, error) {
	return d.nodes, nil
}

// start runs the controllers as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "manager"})
	must(w.T, err)
	ctx, to := c.HandlerContext(), downstream{w.nodes}
	must(w.T, nodedriver.Register(ctx, nodedriver.Deps{NodeDrivers: c.Management.NodeDriver(),
		DynamicSchemas: c.Management.DynamicSchema(), Jobs: c.Batch.Job(), Pods: c.Core.Pod(), Secrets: c.Core.Secret(),
		Settings: func() driverjob.Settings { return driverjob.Settings{Namespace: "drover-system"} }}))
	must(w.T, dynamicschema.Register(ctx, dynamicschema.Deps{
		DynamicSchemas: c.Management.DynamicSchema(), CRDs: c.CRDs.CustomResourceDefinition(), Objects: c.Dynamic,
		Apply: c.Apply,
	}))
	must(w.T, bootstrap.Register(ctx, bootstrap.Deps{
		Bootstraps: c.RKE.RKEBootstrap(), ControlPlanes: c.RKE.RKEControlPlane(), Machines: c.CAPI.Machine(),
		CAPIClusters: c.CAPI.Cluster(),
		Clusters:     c.Provisioning.Cluster(), Secrets: c.Core.Secret(), ServiceAccounts: c.Core.ServiceAccount(),
		Apply: c.Apply, Downstream: to,
		InstanceID: "ours",
		Settings: bootstrap.Settings{
			ServerURL: "https://drover.example.org/", LinuxInstaller: "#!/bin/sh\necho install\n", ServesAgent: true,
			ReusedTTL: 30 * time.Second,
		},
	}))
	counter, err := metrics.NewDisruptions(w.metrics)
	must(w.T, err)
	must(w.T, machineprovision.Register(ctx, w.deps(c, counter)))
	must(w.T, machinenodelookup.Register(ctx, machinenodelookup.Deps{
		Bootstraps: c.RKE.RKEBootstrap(), Machines: c.CAPI.Machine(), CustomMachines: c.RKE.CustomMachine(),
		Secrets: c.Core.Secret(),
		Dynamic: c.Dynamic, Downstream: to,
	}))
	running, cancel := context.WithCancel(w.Context())
	if err := c.Start(running); err != nil {
		w.Log("the manager did not start:", err) // it was killed while starting
	}
	w.stop = func() {
		cancel()
		c.Stop()
		synctest.Wait()
	}
}

func (w *world) deps(c *clients.Clients, counter *metrics.Disruptions) machineprovision.Deps {
	deps := machineprovision.Deps{
		Access:      access.New(access.Options{}),
		InstanceID:  "ours",
		Disruptions: counter,
		Dynamic:     c.Dynamic, Machines: c.CAPI.Machine(), CAPIClusters: c.CAPI.Cluster(),
		Clusters:   c.Provisioning.Cluster(),
		Bootstraps: c.RKE.RKEBootstrap(), NodeDrivers: c.Management.NodeDriver(), Jobs: c.Batch.Job(),
		Pods: c.Core.Pod(), Secrets: c.Core.Secret(), Roles: c.RBAC.Role(), RoleBindings: c.RBAC.RoleBinding(),
		ServiceAccounts: c.Core.ServiceAccount(),
		Apply:           c.Apply, ApplySecrets: c.Secrets, Settings: func() machinejob.Settings { return w.settings },
	}
	deps.Output = func(context.Context, string, string) ([]byte, error) {
		if w.output == "" {
			return nil, errors.New("the kubelet does not answer")
		}
		return []byte(w.output), nil
	}
	if w.earlier {
		deps.Roles, deps.RoleBindings = nil, nil
	}
	return deps
}

func (w *world) restart() {
	w.Helper()
	w.stop()
	w.api.Mend(manager)
	w.start()
}

// run runs all parts until nothing changes any more, and fails if that never happens.
func (w *world) run() {
	w.Helper()
	quiet := 0
	for range 400 {
		before := w.api.Changes()
		w.step()
		w.sleep(500 * time.Millisecond)
		if quiet++; w.api.Changes() != before {
			quiet = 0
		}
		if quiet > w.patience {
			return
		}
	}
	w.Fatalf("the world does not settle: %v", w.api.Writes("")[max(0, len(w.api.Writes(""))-10):])
}

// sleep lets virtual time pass, and waits until everything due is done.
func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// step runs each simulated part once.
func (w *world) step() {
	w.Helper()
	select {
	case <-w.cut:
		w.cut = nil // kill once
		w.restart()
	default:
	}
	for _, play := range []func() error{w.playJobs, w.playMachines} {
		if err := play(); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			w.Fatal(err)
		}
	}
}

// machineState returns what rancher-machine writes: an archive with the machine, or an empty one.
func machineState(instance string) []byte {
	files := map[string]string{}
	if instance != "" {
		files["/home/machine/.docker/machine/machines/"+instance+"/config.json"] = "{}"
	}
	return packed.Archive(files)
}

func (w *world) machine(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(machineKind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	found, err := w.api.Get(obj)
	if err != nil || !found {
		return nil
	}
	return obj
}

func (w *world) status(name string) rkev1.RKEMachineStatus {
	w.Helper()
	obj := w.machine(name)
	if obj == nil {
		w.Fatalf("machine %s does not exist", name)
	}
	var status rkev1.RKEMachineStatus
	raw, err := json.Marshal(obj.Object["status"])
	must(w.T, err)
	must(w.T, json.Unmarshal(raw, &status))
	return status
}

// owned lists the objects of machines, as "Kind name".
func (w *world) owned() []string {
	var out []string
	for _, gvk := range []schema.GroupVersionKind{
		jobKind, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ServiceAccount"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
	} {
		for _, obj := range w.api.Objects(gvk) {
			if obj.GetNamespace() == namespace && obj.GetName() != "default" && obj.GetName() != "demo-kubeconfig" &&
				obj.GetName() != naming.PlanSecret("m0") {
				out = append(out, gvk.Kind+" "+obj.GetName())
			}
		}
	}
	return out
}
