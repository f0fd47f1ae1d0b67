package thrift

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	machineKind = clusterv1.GroupVersion.WithKind("Machine")
	hostKind    = clusterv1.GroupVersionInfrastructure.WithKind("Host")
)

const (
	owner    = "capi-machineset"
	ownSpec  = `{"f:spec":{"f:clusterName":{},"f:version":{}}}`
	lessSpec = `{"f:spec":{"f:clusterName":{}}}`
)

// apiServer answers applies: the object gets a UID, a version and an entry in managedFields.
type apiServer struct {
	client.Client
	applies int
	fail    error
}

func (s *apiServer) Apply(_ context.Context, configuration runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	s.applies++
	if s.fail != nil {
		return s.fail
	}
	object := configuration.(client.Object)
	object.SetUID("one")
	object.SetResourceVersion("100")
	object.SetManagedFields(entries(owner, ownSpec))
	return nil
}

func entries(manager, fields string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: "cluster.x-k8s.io/v1beta2", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields)}}
}

// world is a Client with its caches and its API server.
type world struct {
	server   *apiServer
	thrift   *Thrift
	client   *Client
	machines toolscache.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{server: &apiServer{}, thrift: New(Options{Scheme: scheme}),
		machines: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)}
	w.client = w.thrift.Client(w.server)
	w.thrift.caches.add(machineKind, &clusterv1.Machine{}, w.machines)
	return w
}

// cache puts the machine of the first apply into the cache, after a change.
func (w *world) cache(t *testing.T, change func(*clusterv1.Machine)) {
	t.Helper()
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m1", UID: "one",
		ResourceVersion: "100", ManagedFields: entries(owner, ownSpec)},
		Spec: clusterv1.MachineSpec{ClusterName: "demo", Version: "v1"}}
	change(machine)
	if err := w.machines.Add(machine); err != nil {
		t.Fatal(err)
	}
}

func wish() *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "fleet", "name": "m1"},
		"spec":     map[string]any{"clusterName": "demo", "version": "v1"},
	}}
	object.SetGroupVersionKind(machineKind)
	return object
}

func (w *world) apply(t *testing.T, object *unstructured.Unstructured, opts ...client.ApplyOption) error {
	t.Helper()
	if opts == nil {
		opts = []client.ApplyOption{client.ForceOwnership, client.FieldOwner(owner)}
	}
	return w.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), opts...)
}

// An apply is dropped only if the object in the cache shows that it would change nothing.
func TestApply_DropsWhatChangesNothing(t *testing.T) {
	same := func(*clusterv1.Machine) {}
	for name, test := range map[string]struct {
		// cached is what others have changed since the first apply; nil if the cache does not have the object.
		cached func(*clusterv1.Machine)
		second func(*unstructured.Unstructured)
		opts   []client.ApplyOption
		sent   bool
	}{
		"the same again": {cached: same},
		"the same, now with the UID": {cached: same,
			second: func(u *unstructured.Unstructured) { u.SetUID("one") }},
		"another controller has written the status": {cached: func(m *clusterv1.Machine) {
			m.ResourceVersion, m.Status.Phase = "105", "Running"
		}},
		"another manager has other fields": {cached: func(m *clusterv1.Machine) {
			m.ManagedFields = append(entries("kubectl", `{"f:metadata":{}}`), m.ManagedFields...)
		}},
		"the API server has another order of fields": {cached: func(m *clusterv1.Machine) {
			m.ManagedFields = entries(owner, `{"f:spec":{"f:version":{},"f:clusterName":{}}}`)
		}},
		"another wish": {cached: same, sent: true,
			second: func(u *unstructured.Unstructured) { u.Object["spec"] = map[string]any{"clusterName": "demo"} }},
		"a wish for another object of that name": {cached: same, sent: true,
			second: func(u *unstructured.Unstructured) { u.SetUID("two") }},
		"another manager has taken a field": {sent: true, cached: func(m *clusterv1.Machine) {
			m.ResourceVersion, m.Spec.Version, m.ManagedFields = "105", "v2",
				append(entries(owner, lessSpec), entries("kubectl", `{"f:spec":{"f:version":{}}}`)...)
		}},
		"the entry of the manager is gone": {sent: true, cached: func(m *clusterv1.Machine) {
			m.ResourceVersion, m.ManagedFields = "105", entries("before-first-apply", ownSpec)
		}},
		"the fields belong to an update now": {sent: true, cached: func(m *clusterv1.Machine) {
			m.ResourceVersion, m.ManagedFields[0].Operation = "105", metav1.ManagedFieldsOperationUpdate
		}},
		"the fields have another API version": {sent: true, cached: func(m *clusterv1.Machine) {
			m.ResourceVersion, m.ManagedFields[0].APIVersion = "105", "cluster.x-k8s.io/v1beta1"
		}},
		"another object of that name is as wished": {cached: func(m *clusterv1.Machine) {
			m.UID, m.ResourceVersion = "two", "105"
		}},
		"another object has that name, and the wish is for the first": {sent: true, cached: func(m *clusterv1.Machine) {
			m.UID, m.ResourceVersion = "two", "105"
		}, second: func(u *unstructured.Unstructured) { u.SetUID("one") }},
		"the cache is behind the first apply": {sent: true,
			cached: func(m *clusterv1.Machine) { m.ResourceVersion = "99" }},
		"the cache does not have the object":  {sent: true},
		"another manager applies":             {cached: same, sent: true, opts: options("other", true, false)},
		"a dry run":                           {cached: same, sent: true, opts: options(owner, true, true)},
		"an apply that leaves others' fields": {cached: same, sent: true, opts: options(owner, false, false)},
		"an apply that creates the name": {cached: same, sent: true,
			second: func(u *unstructured.Unstructured) { u.SetName("") }},
		"an apply of a version of the object": {cached: same, sent: true,
			second: func(u *unstructured.Unstructured) { u.SetResourceVersion("1") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if err := w.apply(t, wish()); err != nil {
				t.Fatal(err)
			}
			if test.cached != nil {
				w.cache(t, test.cached)
			}
			second := wish()
			if test.second != nil {
				test.second(second)
			}
			if err := w.apply(t, second, test.opts...); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{false: 1, true: 2}[test.sent]; w.server.applies != want {
				t.Errorf("%d applies reached the API server, want %d", w.server.applies, want)
			}
		})
	}
}

func options(manager string, force, dryRun bool) []client.ApplyOption {
	opts := []client.ApplyOption{client.FieldOwner(manager)}
	if force {
		opts = append(opts, client.ForceOwnership)
	}
	if dryRun {
		opts = append(opts, client.DryRunAll)
	}
	return opts
}

// A new process knows nothing of earlier applies. It drops what the object shows to be done.
func TestApply_DropsAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.cache(t, func(*clusterv1.Machine) {})
	if err := w.apply(t, wish()); err != nil || w.server.applies != 0 {
		t.Errorf("%d applies reached the API server, want 0, error %v", w.server.applies, err)
	}
}

// After an apply that failed, the next one is sent: the API server may have done a part, or all of it.
func TestApply_SendsAfterOneFails(t *testing.T) {
	w := newWorld(t)
	w.cache(t, func(*clusterv1.Machine) {})
	other := wish()
	other.Object["spec"] = map[string]any{"clusterName": "demo", "version": "v2"}
	failed := errors.New("time-out")
	for i, step := range []struct {
		object *unstructured.Unstructured
		fail   error
		want   int
	}{{wish(), nil, 0}, {other, failed, 1}, {wish(), nil, 2}, {wish(), nil, 2}} {
		w.server.fail = step.fail
		if err := w.apply(t, step.object); !errors.Is(err, step.fail) {
			t.Errorf("step %d: error %v, want %v", i, err, step.fail)
		}
		if w.server.applies != step.want {
			t.Errorf("step %d: %d applies, want %d", i, w.server.applies, step.want)
		}
	}
}

// A dropped apply answers with the object as it is, with its managed fields, which rollouts compare. The caller may
// change the answer; the cache stays as it is.
func TestApply_AnswersWithTheObject(t *testing.T) {
	host := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": "small"},
		"status": map[string]any{"ready": true}}}
	host.SetGroupVersionKind(hostKind)
	host.SetNamespace("fleet")
	host.SetName("h1")
	host.SetUID("one")
	host.SetResourceVersion("107")
	host.SetManagedFields(entries(owner, ownSpec))

	w := newWorld(t)
	hosts := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	w.thrift.caches.add(hostKind, &unstructured.Unstructured{}, hosts)
	if err := hosts.Add(host.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	w.cache(t, func(m *clusterv1.Machine) { m.ResourceVersion, m.Status.Phase = "108", "Running" })
	for range 2 {
		applied := host.DeepCopy()
		maps.DeleteFunc(applied.Object, func(key string, _ any) bool { return key == "status" })
		applied.SetResourceVersion("")
		applied.SetManagedFields(nil)
		if err := w.apply(t, applied); err != nil {
			t.Fatal(err)
		}
		if w.server.applies == 1 && applied.GetResourceVersion() == "107" {
			if diff := cmp.Diff(host.Object, applied.Object); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			applied.Object["status"].(map[string]any)["ready"] = false
		}
	}
	cached, _, _ := hosts.GetByKey("fleet/h1")
	if diff := cmp.Diff(host.Object, cached.(*unstructured.Unstructured).Object); diff != "" {
		t.Errorf("the caller has changed the cache (-want +got):\n%s", diff)
	}

	machine := wish()
	for range 2 {
		machine = wish()
		if err := w.apply(t, machine); err != nil {
			t.Fatal(err)
		}
	}
	got := &clusterv1.Machine{}
	if err := w.thrift.scheme.Convert(machine, got, nil); err != nil {
		t.Fatal(err)
	}
	want, _, _ := w.machines.GetByKey("fleet/m1")
	got.TypeMeta = metav1.TypeMeta{}
	if diff := cmp.Diff(want, any(got)); diff != "" || w.server.applies != 2 {
		t.Errorf("%d applies, want 2; answer (-want +got):\n%s", w.server.applies, diff)
	}
}

// Applies that the cache shows, or whose objects are gone, are forgotten.
func TestApply_ForgetsWhatTheCacheShows(t *testing.T) {
	w := newWorld(t)
	for i := range 10 * leastKept {
		object := wish()
		object.SetName("m-" + string(rune('a'+i%26)) + string(rune(0x4e00+i/26)))
		if err := w.apply(t, object); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			w.cache(t, func(m *clusterv1.Machine) { m.Name = object.GetName() })
		}
		w.machines.Bookmark("100")
	}
	if got := len(w.client.sent); got > leastKept {
		t.Errorf("%d applies are remembered, and the cache shows all", got)
	}
}
