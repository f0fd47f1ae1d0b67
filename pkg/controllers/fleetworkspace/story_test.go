package fleetworkspace_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/fleetworkspace"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const agent = "drover/test"

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// world is a management cluster with the running controller.
type world struct {
	*testing.T
	api  *memkube.Server
	user *clients.Clients
	stop func()
	// rival says whether another manager runs, and asked how often Drover looked.
	rival atomic.Bool
	asked atomic.Int32
	// cut is closed when the process is killed; nil if the test does not kill it.
	cut chan struct{}
}

// tell runs a test in virtual time, with Fleet's CRDs.
func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	inWorld(t, true, f)
}

func inWorld(t *testing.T, withFleet bool, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t}
		w.api = memkube.New(memkube.Options{
			Scheme: scheme, CRDs: definitions, Namespaces: []string{"existing"}, Permit: rights.Permit(t, agent),
		})
		w.user, err = clients.New(w.api.Config("ignored"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		if withFleet {
			w.installFleet()
		}
		w.start()
		defer func() { w.stop() }()
		f(w)
	})
}

func (w *world) installFleet() {
	w.Helper()
	for kind, plural := range map[string]string{"Cluster": "clusters", "Bundle": "bundles"} {
		_, err := w.user.CRDs.CustomResourceDefinition().Create(&apiextv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".fleet.cattle.io"},
			Spec: apiextv1.CustomResourceDefinitionSpec{
				Group: "fleet.cattle.io", Scope: apiextv1.NamespaceScoped,
				Names: apiextv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural,
					Singular: strings.ToLower(kind),
					ListKind: kind + "List"},
				Versions: []apiextv1.CustomResourceDefinitionVersion{{
					Name: "v1alpha1", Served: true, Storage: true,
					Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &apiextv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: new(true)}},
				}},
			},
		})
		must(w.T, err)
	}
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test"})
	must(w.T, err)
	must(w.T, fleetworkspace.Register(c.HandlerContext(), fleetworkspace.Deps{
		Workspaces: c.Management.FleetWorkspace(), Namespaces: c.Core.Namespace(), Clusters: c.Provisioning.Cluster(),
		CAPIClusters: c.CAPI.Cluster(), CRDs: c.CRDs.CustomResourceDefinition(), Kinds: c.Dynamic, Apply: c.Apply,
		Rival: func(context.Context) (string, error) {
			w.asked.Add(1)
			return map[bool]string{true: "Rancher runs"}[w.rival.Load()], nil
		},
	}))
	workers, cancel := context.WithCancel(w.Context())
	if err := c.Start(workers); err != nil {
		w.Log("the controller did not start:", err) // it was killed while starting
	}
	w.stop = func() {
		cancel()
		c.Stop()
		synctest.Wait()
	}
	w.pass(10 * time.Second)
}

// pass lets time d pass. If the controller was killed meanwhile, pass restarts it and lets d pass again.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	select {
	case <-w.cut:
		w.cut = nil // kill once
		w.stop()
		w.api.Mend(agent)
		w.start()
		w.pass(d)
	default:
	}
}

// quiet fails if the controller writes anything within d.
func (w *world) quiet(d time.Duration) {
	w.Helper()
	w.api.ResetLog()
	w.pass(d)
	if writes := w.api.Writes(agent); len(writes) > 0 {
		w.Errorf("writes: %v", writes)
	}
}

// create creates a FleetWorkspace as a user.
func (w *world) create(name string, annotations map[string]string) {
	w.Helper()
	_, err := w.user.Management.FleetWorkspace().Create(&mgmtv3.FleetWorkspace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, Labels: map[string]string{"team": "a"}}})
	must(w.T, err)
	w.pass(10 * time.Second)
}

func (w *world) remove(name string) {
	w.Helper()
	must(w.T, w.user.Management.FleetWorkspace().Delete(name, &metav1.DeleteOptions{}))
	w.pass(time.Minute)
}

// has reports whether an object exists.
func (w *world) has(gvk schema.GroupVersionKind, namespace, name string) bool {
	for _, object := range w.api.Objects(gvk) {
		if object.GetNamespace() == namespace && object.GetName() == name {
			return true
		}
	}
	return false
}

func (w *world) hasNamespace(name string) bool { return w.has(fleet.WorkspaceKinds()[0], "", name) }

func (w *world) hasWorkspace(name string) bool {
	return w.has(mgmtv3.SchemeGroupVersion.WithKind("FleetWorkspace"), "", name)
}

// wantCondition compares condition Ready with STATUS REASON MESSAGE.
func (w *world) wantCondition(name, want string) {
	w.Helper()
	found, err := w.user.Management.FleetWorkspace().Get(name, metav1.GetOptions{})
	must(w.T, err)
	got := ""
	if c := conditions.Get(found.Status.Conditions, mgmtv3.FleetWorkspaceConditionReady); c != nil {
		got = strings.TrimSpace(c.Status + " " + c.Reason + " " + c.Message)
	}
	if got != want {
		w.Errorf("condition of %s:\n  %q, want\n  %q", name, got, want)
	}
}

// add stores an object of Fleet.
func (w *world) add(gvk schema.GroupVersionKind, namespace string) {
	w.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"resources": "many"}}}
	object.SetGroupVersionKind(gvk)
	object.SetNamespace(namespace)
	object.SetName("x")
	must(w.T, w.api.Add(object))
	w.pass(10 * time.Second)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStory_WorkspaceHasANamespaceAndRights(t *testing.T) {
	tell(t, func(w *world) {
		w.create("team-a", map[string]string{provv1.CreatorIDAnnotation: "alice"})
		w.wantCondition("team-a", "True")
		namespace, err := w.user.Core.Namespace().Get("team-a", metav1.GetOptions{})
		must(w.T, err)
		if namespace.Labels["team"] != "a" {
			t.Errorf("labels of the namespace: %v", namespace.Labels)
		}
		binding, err := w.user.RBAC.RoleBinding().Get("team-a", "fleetworkspace-admin-binding-team-a",
			metav1.GetOptions{})
		must(w.T, err)
		want := []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice"}}
		if diff := cmp.Diff(want, binding.Subjects); diff != "" {
			t.Error(diff)
		}
		_, err = w.user.RBAC.ClusterRoleBinding().Get("fleetworkspace-own-binding-team-a", metav1.GetOptions{})
		must(w.T, err)
		w.quiet(time.Hour)
		w.stop()
		w.start()
		w.quiet(time.Hour)

		w.remove("team-a")
		if w.hasWorkspace("team-a") || w.hasNamespace("team-a") ||
			w.has(fleet.WorkspaceKinds()[2], "", "fleetworkspace-own-team-a") {
			t.Errorf("after the deletion: FleetWorkspace %v, namespace %v", w.hasWorkspace("team-a"),
				w.hasNamespace("team-a"))
		}
		w.quiet(time.Hour)
	})
}

func TestStory_ClustersHoldTheDeletion(t *testing.T) {
	tell(t, func(w *world) {
		w.create("team-a", nil)
		for name, namespace := range map[string]string{"one": "team-a", "two": "existing"} {
			must(t, w.api.Add(&provv1.Cluster{
				TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
					provv1.FleetWorkspaceNameAnnotation: "team-a"}},
			}))
		}
		w.remove("team-a")
		const held = "False ClustersInWorkspace the deletion of the FleetWorkspace would delete namespace team-a: " +
			"delete these clusters first, or move them to another workspace: "
		w.wantCondition("team-a", held+"existing/two, team-a/one")
		w.quiet(time.Hour)
		must(t, w.user.Provisioning.Cluster().Delete("team-a", "one", &metav1.DeleteOptions{}))
		w.pass(time.Minute)
		w.wantCondition("team-a", held+"existing/two")
		if !w.hasNamespace("team-a") {
			t.Fatal("the namespace is gone")
		}
		must(t, w.user.Provisioning.Cluster().Delete("existing", "two", &metav1.DeleteOptions{}))
		w.pass(time.Minute)
		if w.hasWorkspace("team-a") || w.hasNamespace("team-a") {
			t.Error("the deletion does not continue without clusters")
		}
	})
}

func TestStory_ExistingNamespaceStays(t *testing.T) {
	tell(t, func(w *world) {
		w.create("existing", map[string]string{provv1.CreatorIDAnnotation: "alice"})
		w.wantCondition("existing", "True NamespaceExists Namespace existing existed before the FleetWorkspace: "+
			"Drover "+
			"does not change or delete it")
		namespace, err := w.user.Core.Namespace().Get("existing", metav1.GetOptions{})
		must(t, err)
		if len(namespace.Labels) > 1 || w.has(fleet.WorkspaceKinds()[2], "", "fleetworkspace-own-existing") {
			t.Errorf("Drover changed an existing namespace: %v", namespace.Labels)
		}
		w.remove("existing")
		if w.hasWorkspace("existing") || !w.hasNamespace("existing") {
			t.Error("want the namespace without the FleetWorkspace")
		}
	})
}

func TestStory_UnmanagedWorkspaceKeepsItsNamespace(t *testing.T) {
	tell(t, func(w *world) {
		w.create("other", map[string]string{provv1.ManagedAnnotation: "false"})
		if w.hasNamespace("other") {
			t.Error("Drover creates a namespace that it does not manage")
		}
		w.create("team-a", nil)
		found, err := w.user.Management.FleetWorkspace().Get("team-a", metav1.GetOptions{})
		must(t, err)
		found.Annotations = map[string]string{provv1.ManagedAnnotation: "false"}
		_, err = w.user.Management.FleetWorkspace().Update(found)
		must(t, err)
		w.pass(time.Minute)
		w.remove("team-a")
		if w.hasWorkspace("team-a") || !w.hasNamespace("team-a") {
			t.Error("want the namespace without the FleetWorkspace")
		}
	})
}

func TestStory_ObjectsOfFleetMakeAWorkspace(t *testing.T) {
	for _, gvk := range []schema.GroupVersionKind{fleet.ClusterKind, fleet.BundleKind} {
		t.Run(gvk.Kind, func(t *testing.T) {
			tell(t, func(w *world) {
				w.add(gvk, "existing")
				found, err := w.user.Management.FleetWorkspace().Get("existing", metav1.GetOptions{})
				must(t, err)
				namespace, err := w.user.Core.Namespace().Get("existing", metav1.GetOptions{})
				must(t, err)
				if fleet.IsManaged(found) || len(found.OwnerReferences) != 1 ||
					found.OwnerReferences[0].UID != namespace.UID || len(found.Finalizers) > 0 {
					t.Errorf("adopted FleetWorkspace: %+v", found.ObjectMeta)
				}
				w.quiet(time.Hour)
			})
		})
	}
}

func TestStory_WorkspaceWaitsForFleet(t *testing.T) {
	t.Parallel()
	inWorld(t, false, func(w *world) {
		w.create("team-a", nil)
		w.wantCondition("team-a", "Unknown Waiting "+
			"Waiting for Fleet: CRD clusters.fleet.cattle.io is not established")
		if w.hasNamespace("team-a") {
			t.Error("the namespace exists before Fleet")
		}
		w.installFleet()
		w.pass(10 * time.Second)
		w.wantCondition("team-a", "True")
		for _, name := range []string{"clusters.fleet.cattle.io", "bundles.fleet.cattle.io"} {
			must(t, w.user.CRDs.CustomResourceDefinition().Delete(name, &metav1.DeleteOptions{}))
		}
		w.pass(10 * time.Second)
		w.quiet(time.Hour)
		w.remove("team-a")
		if w.hasWorkspace("team-a") || w.hasNamespace("team-a") {
			t.Error("the deletion needs Fleet")
		}
	})
}

func TestStory_WorkspaceWithAnImpossibleName(t *testing.T) {
	tell(t, func(w *world) {
		w.create("a.b", nil)
		found, err := w.user.Management.FleetWorkspace().Get("a.b", metav1.GetOptions{})
		must(t, err)
		c := conditions.Get(found.Status.Conditions, mgmtv3.FleetWorkspaceConditionReady)
		if c == nil || c.Status != "False" ||
			!strings.HasPrefix(c.Message, "metadata.name: must be a name of a namespace") {
			t.Errorf("condition %+v", c)
		}
	})
}

// A workspace is made and deleted wherever the process is killed.
func TestStory_WorkspaceWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	crashpoints.Each(t, 6, func(t *testing.T, n int) (writes int) {
		t.Helper()
		inWorld(t, true, func(w *world) {
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			when := fmt.Sprint("killed after write ", n)
			w.create("team-a", map[string]string{provv1.CreatorIDAnnotation: "alice"})
			w.wantCondition("team-a", "True")
			if !w.has(fleet.WorkspaceKinds()[3], "", "fleetworkspace-own-binding-team-a") {
				t.Errorf("%s: the creator has no rights", when)
			}
			w.remove("team-a")
			writes = w.api.Written(agent)
			w.pass(time.Minute) // restarts the controller if it was killed at the very end
			if w.hasWorkspace("team-a") || w.hasNamespace("team-a") ||
				w.has(fleet.WorkspaceKinds()[2], "", "fleetworkspace-own-team-a") {
				t.Errorf("%s: something is left", when)
			}
			w.quiet(time.Hour)
		})
		return writes
	})
}

// Another manager keeps the same objects with the same marks. Two managers would undo each other's changes.
func TestStory_NothingBesideAnotherManager(t *testing.T) {
	tell(t, func(w *world) {
		w.create("team-a", map[string]string{provv1.CreatorIDAnnotation: "alice"})
		w.rival.Store(true)
		w.pass(time.Hour)
		role, err := w.user.RBAC.ClusterRole().Get("fleetworkspace-own-team-a", metav1.GetOptions{})
		must(t, err)
		role.Rules[0].Verbs = []string{"*"}
		w.api.ResetLog()
		_, err = w.user.RBAC.ClusterRole().Update(role)
		must(t, err)
		w.create("team-b", nil)
		w.add(fleet.BundleKind, "existing")
		w.asked.Store(0)
		w.pass(time.Hour)
		if writes := w.api.Writes(agent); len(writes) > 0 {
			t.Errorf("writes: %v", writes)
		}
		if asked := w.asked.Load(); asked > 40 {
			t.Errorf("Drover looked %d times in an hour", asked)
		}
		w.remove("team-a")
		if w.hasWorkspace("team-a") || w.hasNamespace("team-a") {
			t.Error("Drover does not end the deletion that it holds")
		}
		w.rival.Store(false)
		w.pass(10 * time.Minute)
		if !w.hasNamespace("team-b") || !w.hasWorkspace("existing") {
			t.Error("Drover does not continue when the other manager is gone")
		}
	})
}
