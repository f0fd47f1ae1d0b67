package bootstrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/bootstrap"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	instance  = "me"
	namespace = "fleet-default"
	manager   = "drover/manager"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is an in-memory management cluster with this controller only. The tests act as Cluster API.
type world struct {
	*testing.T
	api   *memkube.Server
	c     *clients.Clients // the client of the tests
	down  *downstream
	stop  func()
	setup bootstrap.Settings
	// cut is closed when the process was killed.
	cut <-chan struct{}
	// serves means that the process also answers machines that register, by served.
	serves bool
	served http.Handler
}

// tell runs a test in virtual time.
func tell(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		w.start()
		f(t, w)
	})
}

// end stops everything and lets remaining timers expire.
func (w *world) end() {
	w.stop()
	w.c.Stop()
	synctest.Wait()
	time.Sleep(time.Minute)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme, err := clients.NewScheme()
	must(t, err)
	definitions, err := crds.All()
	must(t, err)
	w := &world{
		T: t, stop: func() {}, api: memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions,
			Namespaces: []string{namespace}, Permit: rights.Permit(t, manager)}),
		down: &downstream{nodes: fake.NewClientset()},
		setup: bootstrap.Settings{
			ServerURL: "https://drover.example.org/", CACerts: memkube.CACertificate,
			LinuxInstaller: "#!/bin/sh\necho install\n",
			ServesAgent:    true, ReusedTTL: 10 * time.Minute,
		},
	}
	w.c, err = clients.New(w.api.Config("players"), clients.Options{Version: "players"})
	must(t, err)
	w.addCluster("demo", instance)
	return w
}

// addCluster adds a cluster with ready infrastructure and the mark of an instance.
func (w *world) addCluster(name, mark string) {
	w.Helper()
	must(w.T, w.api.Add(
		&provv1.Cluster{
			TypeMeta: metav1.TypeMeta{APIVersion: provv1.SchemeGroupVersion.String(), Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
				Annotations: map[string]string{rkev1.InstanceAnnotation: mark}},
		},
		&clusterv1.Cluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: rkev1.SchemeGroupVersion.Group, Kind: "RKEControlPlane", Name: name,
			}},
			Status: clusterv1.ClusterStatus{Initialization: clusterv1.ClusterInitializationStatus{
				InfrastructureProvisioned: new(true)}},
		},
		&rkev1.RKEControlPlane{
			TypeMeta:   metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "RKEControlPlane"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: rkev1.RKEControlPlaneSpec{ClusterName: name, ManagementClusterName: "c-m-abcdefgh",
				KubernetesVersion: "v1.36.2+k3s1"},
		},
	))
}

// machine describes a machine for a test.
type machine struct {
	name, cluster, infraGroup string
	etcd, windows             bool
	userdata                  string
	labels, annotations       map[string]string
}

// add creates what Cluster API creates for a replica, without the infrastructure machine.
func (w *world) add(m machine) {
	w.Helper()
	if m.cluster == "" {
		m.cluster = "demo"
	}
	if m.infraGroup == "" {
		m.infraGroup = "rke-machine.cattle.io"
	}
	labels := map[string]string{clusterv1.ClusterNameLabel: m.cluster, rkev1.ClusterNameLabel: m.cluster}
	if m.etcd {
		labels[rkev1.EtcdRoleLabel] = rkev1.RoleLabelValue
	}
	if m.windows {
		labels[rkev1.CattleOSLabel] = "windows"
	}
	made, err := w.c.CAPI.Machine().Create(&clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.name, Labels: labels,
			Finalizers: []string{clusterv1.MachineFinalizer}},
		Spec: clusterv1.MachineSpec{
			ClusterName: m.cluster,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: rkev1.SchemeGroupVersion.Group, Kind: "RKEBootstrap", Name: m.name,
			}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: m.infraGroup, Kind: "ThingMachine",
				Name: m.name},
		},
	})
	must(w.T, err)
	boot := &rkev1.RKEBootstrap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: m.name, Labels: labels, Annotations: m.annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: made.Name, UID: made.UID,
				Controller: new(true),
			}},
		},
		Spec: rkev1.RKEBootstrapSpec{ClusterName: m.cluster},
	}
	maps.Copy(boot.Labels, m.labels)
	if m.userdata != "" {
		boot.Spec.Userdata = &rkev1.UserdataSpec{InlineUserdata: m.userdata}
	}
	_, err = w.c.RKE.RKEBootstrap().Create(boot)
	must(w.T, err)
}

// join creates the machine's node downstream and in the Machine's status.
func (w *world) join(name string) {
	w.Helper()
	found := w.machine(name)
	labels := map[string]string{}
	if found.Labels[rkev1.EtcdRoleLabel] == rkev1.RoleLabelValue {
		labels["node-role.kubernetes.io/etcd"] = "true"
	}
	_, err := w.down.nodes.CoreV1().Nodes().Create(w.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	must(w.T, err)
	found.Status.NodeRef.Name = name
	_, err = w.c.CAPI.Machine().UpdateStatus(found)
	must(w.T, err)
}

// kubeconfig creates the kubeconfig Secret, which means that the cluster is reachable.
func (w *world) kubeconfig(cluster string) {
	w.Helper()
	must(w.T, w.api.Add(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: cluster + "-kubeconfig"},
	}))
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "manager"})
	must(w.T, err)
	must(w.T, bootstrap.Register(c.HandlerContext(), bootstrap.Deps{
		Bootstraps: c.RKE.RKEBootstrap(), ControlPlanes: c.RKE.RKEControlPlane(), Machines: c.CAPI.Machine(),
		CAPIClusters: c.CAPI.Cluster(),
		Clusters:     c.Provisioning.Cluster(), Secrets: c.Core.Secret(), ServiceAccounts: c.Core.ServiceAccount(),
		Apply: c.Apply,
		Roles: c.RBAC.Role(), RoleBindings: c.RBAC.RoleBinding(), Downstream: w.down, Settings: w.setup,
		InstanceID: instance,
	}))
	running, cancel := context.WithCancel(w.Context())
	if err := c.Start(running); err != nil {
		w.Log("the manager did not start:", err) // it was killed while starting
	}
	stopServing := func() {}
	if w.serves {
		w.served, stopServing = w.endpoint()
	}
	w.stop = func() {
		stopServing()
		cancel()
		c.Stop()
		synctest.Wait()
	}
}

func (w *world) restart() {
	w.Helper()
	w.stop()
	w.api.Mend(manager)
	w.start()
}

// elapse lets time d pass. If the process was killed meanwhile, elapse restarts it and lets d pass again.
func (w *world) elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	select {
	case <-w.cut:
		w.cut = nil // kill once
		w.restart()
		w.elapse(d)
	default:
	}
}

// killAfter kills the process after write n from now, if n is not 0.
func (w *world) killAfter(n int) {
	w.api.ResetLog()
	if n > 0 {
		cut := make(chan struct{})
		w.cut = cut
		w.api.CutAfter(manager, n, func() { close(cut) })
	}
}

// settle waits until all due work is done, including retries of refused writes, but without timers of minutes.
func (w *world) settle() { w.elapse(15 * time.Second) }

// wantQuiet fails if the controller writes anything within d.
func (w *world) wantQuiet(d time.Duration) {
	w.Helper()
	w.api.ResetLog()
	w.elapse(d)
	if writes := w.api.Writes(manager); len(writes) > 0 {
		w.Errorf("%d unexpected writes: %v", len(writes), writes)
	}
}

func (w *world) read(obj runtime.Object) bool {
	w.Helper()
	found, err := w.api.Get(obj)
	must(w.T, err)
	return found
}

func (w *world) machine(name string) *clusterv1.Machine {
	w.Helper()
	found := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if !w.read(found) {
		w.Fatalf("Machine %s is gone", name)
	}
	return found
}

func (w *world) bootstrap(name string) *rkev1.RKEBootstrap {
	w.Helper()
	found := &rkev1.RKEBootstrap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if !w.read(found) {
		w.Fatalf("RKEBootstrap %s is gone", name)
	}
	return found
}

// secret returns nil if the Secret does not exist.
func (w *world) secret(name string) *corev1.Secret {
	w.Helper()
	found := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if !w.read(found) {
		return nil
	}
	return found
}

func (w *world) data(name string) string {
	w.Helper()
	secret := w.secret(name + "-machine-bootstrap")
	if secret == nil {
		w.Fatalf("machine %s has no bootstrap data", name)
	}
	return string(secret.Data[rkev1.BootstrapDataKey])
}

// patchMachine changes a Machine as a user would.
func (w *world) patchMachine(name string, content map[string]any) {
	w.Helper()
	_, err := w.c.CAPI.Machine().Patch(namespace, name, types.MergePatchType, encode(w.T, content))
	must(w.T, err)
}

func (w *world) annotateSecret(name, key, value string) {
	w.Helper()
	content := map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}}
	_, err := w.c.Core.Secret().Patch(namespace, name, types.MergePatchType, encode(w.T, content))
	must(w.T, err)
}

// reports acts as a machine's agent at the end of its first plan.
func (w *world) reports(machine string) {
	w.Helper()
	content := map[string]any{"data": map[string][]byte{nodeplan.KeyAppliedChecksum: []byte("sum")}}
	_, err := w.c.Core.Secret().Patch(namespace, machine+"-machine-plan", types.MergePatchType, encode(w.T, content))
	must(w.T, err)
	w.settle()
}

func encode(t *testing.T, content any) []byte {
	t.Helper()
	data, err := json.Marshal(content)
	must(t, err)
	return data
}

// held returns whether the hook and the finalizer exist.
func (w *world) held(name string) (hook, finalizer bool) {
	w.Helper()
	hook = w.machine(name).Annotations[rkev1.PreTerminateAnnotation] == rkev1.PreTerminateAnnotationValue
	return hook, slices.Contains(w.bootstrap(name).Finalizers, rkev1.BootstrapEtcdRemovalFinalizer)
}

func madeKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	}
}

// made lists the objects that the controller has created, as "Kind name".
func (w *world) made() []string {
	var out []string
	for _, gvk := range madeKinds() {
		for _, obj := range w.api.Objects(gvk) {
			if obj.GetNamespace() == namespace && strings.Contains(obj.GetName(), "-machine-") {
				out = append(out, gvk.Kind+" "+obj.GetName())
			}
		}
	}
	return out
}

// downstream is the one cluster that all machines join.
type downstream struct {
	nodes *fake.Clientset

	mu    sync.Mutex
	calls int
	err   error
	hang  bool
}

func (d *downstream) set(err error, hang bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls, d.err, d.hang = 0, err, hang
}

func (d *downstream) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

var errDown = errors.New("connection refused")

func (d *downstream) Client(ctx context.Context, _ types.NamespacedName) (kubernetes.Interface, error) {
	d.mu.Lock()
	d.calls++
	err, hang := d.err, d.hang
	d.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.nodes, err
}
