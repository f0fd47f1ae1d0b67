package machinenodelookup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/machinenodelookup"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/proxy"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	instance  = "me"
	namespace = "fleet-default"
	manager   = "drover/manager"
)

var driverKind = schema.GroupVersionKind{Group: clients.MachineGroup, Version: "v1", Kind: "PodMachine"}

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

// world is an in-memory management cluster with this controller only.
type world struct {
	*testing.T
	api  *memkube.Server
	c    *clients.Clients // the client of the tests
	down *downstream
	stop func()
	// cut is closed when the process was killed.
	cut <-chan struct{}
}

func tell(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{
			T: t, stop: func() {}, down: &downstream{nodes: fake.NewClientset()},
			api: memkube.New(memkube.Options{Scheme: scheme, CRDs: append(definitions, podMachines()),
				Namespaces: []string{namespace}, Permit: rights.Permit(t, manager)}),
		}
		w.c, err = clients.New(w.api.Config("players"), clients.Options{Version: "players"})
		must(t, err)
		defer func() {
			w.stop()
			w.c.Stop()
			synctest.Wait()
			time.Sleep(time.Minute)
		}()
		w.addCluster("demo", instance)
		w.start()
		f(t, w)
	})
}

// podMachines returns the kind that a node driver named pod brings.
func podMachines() *apiextv1.CustomResourceDefinition {
	return &apiextv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "podmachines." + clients.MachineGroup},
		Spec: apiextv1.CustomResourceDefinitionSpec{
			Group: clients.MachineGroup, Scope: apiextv1.NamespaceScoped,
			Names: apiextv1.CustomResourceDefinitionNames{Kind: "PodMachine", ListKind: "PodMachineList",
				Plural: "podmachines", Singular: "podmachine"},
			Versions: []apiextv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
				},
			}},
		},
	}
}

func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "manager"})
	must(w.T, err)
	must(w.T, machinenodelookup.Register(c.HandlerContext(), machinenodelookup.Deps{
		Bootstraps: c.RKE.RKEBootstrap(), Machines: c.CAPI.Machine(), CustomMachines: c.RKE.CustomMachine(),
		Secrets: c.Core.Secret(),
		Dynamic: c.Dynamic, Downstream: w.down, Clusters: c.Provisioning.Cluster(), CAPIClusters: c.CAPI.Cluster(),
		InstanceID: instance,
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
		},
	))
}

var custom = rkev1.SchemeGroupVersion.WithKind("CustomMachine")

// add creates a machine with existing infrastructure of a kind, and returns its UID.
func (w *world) add(name, cluster string, kind schema.GroupVersionKind, ready bool) types.UID {
	w.Helper()
	made, err := w.c.CAPI.Machine().Create(&clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: clusterv1.MachineSpec{
			ClusterName: cluster,
			Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: rkev1.SchemeGroupVersion.Group, Kind: "RKEBootstrap", Name: name,
			}},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind,
				Name: name},
		},
	})
	must(w.T, err)
	owner := []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name,
		UID: made.UID, Controller: new(true)}}
	must(w.T, w.api.Add(&rkev1.RKEBootstrap{
		TypeMeta:   metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "RKEBootstrap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: owner},
		Spec:       rkev1.RKEBootstrapSpec{ClusterName: cluster},
		Status: rkev1.RKEBootstrapStatus{
			DataSecretName: new(name + "-machine-bootstrap"),
			Initialization: rkev1.RKEBootstrapInitialization{DataSecretCreated: new(true)},
		},
	}))
	must(w.T, w.api.Add(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Type: rkev1.SecretTypeMachinePlan,
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-machine-plan",
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "RKEBootstrap", Name: name, UID: "b-" + made.UID,
			}}},
		Data: map[string][]byte{"applied-checksum": []byte("x")},
	}))
	infra := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}, "status": readyStatus(ready)}}
	infra.SetGroupVersionKind(kind)
	infra.SetNamespace(namespace)
	infra.SetName(name)
	infra.SetOwnerReferences(owner)
	must(w.T, w.api.Add(infra))
	return made.UID
}

func readyStatus(ready bool) map[string]any {
	status := "False"
	if ready {
		status = "True"
	}
	return map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status}}}
}

// infra returns the provider ID and the addresses of an infrastructure machine.
func (w *world) infra(kind schema.GroupVersionKind, name string) (providerID string,
	addresses []clusterv1.MachineAddress) {
	w.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	if found, err := w.api.Get(obj); err != nil || !found {
		w.Fatalf("no %s %s: %v", kind.Kind, name, err)
	}
	data, err := json.Marshal(obj.Object)
	must(w.T, err)
	var content struct {
		Spec   struct{ ProviderID string }
		Status struct{ Addresses []clusterv1.MachineAddress }
	}
	must(w.T, json.Unmarshal(data, &content))
	return content.Spec.ProviderID, content.Status.Addresses
}

// join creates a node of the machine with that UID.
func (w *world) join(name string, uid types.UID, edits ...func(*corev1.Node)) {
	w.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rke.cattle.io/machine": string(uid)}},
		Spec:       corev1.NodeSpec{ProviderID: "k3s://" + name},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.9"},
				{Type: corev1.NodeHostName, Address: name}},
		},
	}
	for _, edit := range edits {
		edit(node)
	}
	_, err := w.down.nodes.CoreV1().Nodes().Create(w.Context(), node, metav1.CreateOptions{})
	must(w.T, err)
}

func (w *world) patchCluster(content map[string]any) {
	w.Helper()
	data, err := json.Marshal(content)
	must(w.T, err)
	_, err = w.c.CAPI.Cluster().Patch(namespace, "demo", types.MergePatchType, data)
	must(w.T, err)
}

func (w *world) mark(instance string) {
	w.Helper()
	_, err := w.c.Provisioning.Cluster().Patch(namespace, "demo", types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, rkev1.InstanceAnnotation, instance))
	must(w.T, err)
}

// downstream is the cluster that machines join.
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

func TestStory_MachineGetsItsNode(t *testing.T) {
	for _, kind := range []schema.GroupVersionKind{driverKind, custom} {
		t.Run(kind.Kind, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				uid := w.add("m1", "demo", kind, true)
				w.elapse(time.Minute)
				if writes := w.api.Writes(manager); len(writes) > 0 {
					t.Fatalf("writes without a node: %v", writes)
				}
				w.join("other", "another-uid")
				w.join("m1", uid, func(n *corev1.Node) {
					n.Status.Addresses = append(n.Status.Addresses,
						corev1.NodeAddress{Type: "Telephone", Address: "112"},
						corev1.NodeAddress{Type: corev1.NodeExternalIP},
						corev1.NodeAddress{Type: corev1.NodeExternalDNS, Address: strings.Repeat("x", 300)})
				})
				w.elapse(10 * time.Second)
				id, addresses := w.infra(kind, "m1")
				want := []clusterv1.MachineAddress{{Type: "InternalIP", Address: "10.0.0.9"},
					{Type: "Hostname", Address: "m1"}}
				if diff := cmp.Diff(want, addresses); diff != "" || id != "k3s://m1" {
					t.Errorf("provider ID %q, addresses (-want +got):\n%s", id, diff)
				}
				if writes := w.api.Writes(manager); len(writes) != 2 {
					t.Errorf("%d writes, want two: %v", len(writes), writes)
				}
				w.api.ResetLog()
				w.down.set(nil, false)
				w.elapse(time.Hour)
				w.restart()
				w.elapse(time.Hour)
				if writes := w.api.Writes(manager); len(writes) > 0 || w.down.count() > 0 {
					t.Errorf("a machine with a node causes %d requests and the writes %v", w.down.count(), writes)
				}
			})
		})
	}
}

// TestStory_LeavesAlone: machines that must not be written stay unchanged, and an event is enough when they may be.
func TestStory_LeavesAlone(t *testing.T) {
	cases := map[string]struct {
		kind   schema.GroupVersionKind
		before func(w *world)
		ready  bool
		after  func(w *world)
	}{
		"a cluster of another instance": {kind: driverKind, ready: true, before: func(w *world) { w.mark("them") },
			after: func(w *world) { w.mark(instance) }},
		"a paused cluster": {
			kind: driverKind, ready: true, before: func(w *world) {
				w.patchCluster(map[string]any{"spec": map[string]any{"paused": true}})
			},
			after: func(w *world) { w.patchCluster(map[string]any{"spec": map[string]any{"paused": nil}}) },
		},
		"a machine of a driver without a host yet": {kind: driverKind, before: func(*world) {}, after: func(w *world) {
			w.makeReady("m1")
		}},
		"a machine of another provider": {
			kind: schema.GroupVersionKind{Group: rkev1.SchemeGroupVersion.Group, Version: "v1",
				Kind: "RKECluster"}, ready: true, before: func(*world) {},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				c.before(w)
				w.elapse(time.Second)
				uid := w.add("m1", "demo", c.kind, c.ready)
				w.join("m1", uid)
				w.down.set(nil, false)
				w.elapse(time.Hour)
				if writes := w.api.Writes(manager); len(writes) > 0 || w.down.count() > 0 {
					t.Fatalf("%d requests, writes %v", w.down.count(), writes)
				}
				if c.after == nil {
					return
				}
				c.after(w)
				w.elapse(time.Second)
				if id, _ := w.infra(c.kind, "m1"); id != "k3s://m1" {
					t.Errorf("provider ID is %q", id)
				}
			})
		})
	}
}

func (w *world) makeReady(name string) {
	w.Helper()
	data, err := json.Marshal(map[string]any{"status": readyStatus(true)})
	must(w.T, err)
	running, cancel := context.WithCancel(w.Context())
	defer cancel()
	must(w.T, w.c.Start(running))
	_, err = w.c.Dynamic.Patch(w.Context(), driverKind, namespace, name, types.MergePatchType, data, "status")
	must(w.T, err)
}

// TestStory_ClusterThatIsDownWhereverTheProcessIsKilled: a cluster that is down is queried rarely and delays no other
// cluster, and its machines get their nodes when it is up.
func TestStory_ClusterThatIsDownWhereverTheProcessIsKilled(t *testing.T) {
	cases := map[string]struct {
		err  error
		hang bool
		most int
	}{
		"refuses":           {err: errors.New("connection refused"), most: 50},
		"hangs":             {hang: true, most: 50},
		"has no kubeconfig": {err: fmt.Errorf("demo: %w", proxy.ErrNotAvailable), most: 50*45 + 200},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, func(t *testing.T, w *world) {
				w.down.set(c.err, c.hang)
				for i := range 50 {
					machine := fmt.Sprintf("m%d", i)
					w.join(machine, w.add(machine, "demo", driverKind, true))
				}
				w.elapse(10 * time.Minute)
				if writes := w.api.Writes(manager); len(writes) > 0 {
					t.Errorf("writes: %v", writes)
				}
				if n := w.down.count(); n < 20 || n > c.most {
					t.Errorf("%d requests in ten minutes", n)
				}
				w.down.set(nil, false)
				w.elapse(20 * time.Second)
				for i := range 50 {
					if id, _ := w.infra(driverKind, fmt.Sprintf("m%d", i)); id == "" {
						t.Fatalf("machine m%d has no node although the cluster answers again", i)
					}
				}
				if n := w.down.count(); n > 60 {
					t.Errorf("%d requests for fifty machines", n)
				}
			})
		})
	}
}

func TestStory_CutOffAfterEveryWrite(t *testing.T) {
	for _, kind := range []schema.GroupVersionKind{driverKind, custom} {
		t.Run(kind.Kind, func(t *testing.T) {
			retell(t, 2, func(t *testing.T, w *world) {
				w.join("m1", w.add("m1", "demo", kind, true))
				w.elapse(time.Minute)
				id, addresses := w.infra(kind, "m1")
				if id != "k3s://m1" || len(addresses) != 2 {
					t.Errorf("provider ID %q, addresses %v", id, addresses)
				}
			})
		})
	}
}

// TestStory_OldMachineIsLookedForRarely: a machine that never becomes a node is checked rarely after a while.
func TestStory_OldMachineIsLookedForRarely(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		w.add("m1", "demo", driverKind, true)
		w.elapse(time.Hour)
		w.down.set(nil, false)
		w.elapse(time.Hour)
		if n := w.down.count(); n < 200 || n > 245 {
			t.Errorf("%d requests in an hour", n)
		}
	})
}

// TestStory_AmbiguousNodesHurtTheirMachineAloneWhereverTheProcessIsKilled: a node with another machine's label affects
// only that machine.
func TestStory_AmbiguousNodesHurtTheirMachineAloneWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 2, func(t *testing.T, w *world) {
		w.down.set(errors.New("no machine looks for its node before all nodes exist"), false)
		first, second := w.add("m1", "demo", driverKind, true), w.add("m2", "demo", driverKind, true)
		w.join("m1", first)
		w.join("impostor", first)
		w.join("m2", second)
		w.down.set(nil, false)
		w.elapse(time.Minute)
		if id, _ := w.infra(driverKind, "m1"); id != "" {
			t.Errorf("provider ID %q of a machine that two nodes claim", id)
		}
		if id, _ := w.infra(driverKind, "m2"); id != "k3s://m2" {
			t.Errorf("provider ID %q of the other machine", id)
		}
		must(t, w.down.nodes.CoreV1().Nodes().Delete(t.Context(), "impostor", metav1.DeleteOptions{}))
		w.elapse(time.Minute)
		if id, _ := w.infra(driverKind, "m1"); id != "k3s://m1" {
			t.Errorf("provider ID %q after the end of the impostor", id)
		}
	})
}

// TestStory_RefusedWritesAreTriedAgainWhereverTheProcessIsKilled: the provider ID is written again after an error, and
// after a user removes it.
func TestStory_RefusedWritesAreTriedAgainWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 2, func(t *testing.T, w *world) {
		var mu sync.Mutex
		refused := map[string]bool{}
		w.api.Intercept(func(r memkube.Request) error {
			mu.Lock()
			defer mu.Unlock()
			key := r.Verb + r.Subresource
			if !strings.HasPrefix(r.Agent, manager) || r.Verb != "patch" || refused[key] {
				return nil
			}
			refused[key] = true
			return apierrors.NewInternalError(errors.New("etcd is busy"))
		})
		w.join("m1", w.add("m1", "demo", custom, true))
		w.elapse(time.Minute)
		if id, addresses := w.infra(custom, "m1"); id != "k3s://m1" || len(addresses) != 2 || len(refused) != 2 {
			t.Fatalf("provider ID %q, addresses %v, %d writes refused", id, addresses, len(refused))
		}
		_, err := w.c.RKE.CustomMachine().Patch(namespace, "m1", types.MergePatchType,
			[]byte(`{"spec":{"providerID":null}}`))
		must(t, err)
		w.elapse(time.Minute)
		if id, _ := w.infra(custom, "m1"); id != "k3s://m1" {
			t.Errorf("provider ID %q after its removal", id)
		}
	})
}
