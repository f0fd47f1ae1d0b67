package fleet

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) { os.Exit(stage.Main(m)) }

// soon is the limit for what follows an event. Other programs share the machine.
const soon = 3 * time.Minute

// world is a management cluster in which Fleet is played.
type world struct {
	*testing.T
	st *stage.Stage
}

// TestFleet follows a cluster through the life of Fleet: installed, busy, removed, installed again. The cluster is
// disconnected, and deleted.
func TestFleet(t *testing.T) {
	w := &world{t, stage.Start(t, stage.Settings{})}
	namespace := plane.Namespace(t)
	clusters := w.st.Apply(namespace, 2, map[string]string{"demo": stage.K3s})
	w.st.Edit(namespace, "demo", func(c *provv1.Cluster) {
		c.Labels = map[string]string{"env": "test"}
		c.Spec.FleetAgentDeploymentCustomization = &provv1.AgentDeploymentCustomization{
			AppendTolerations: []corev1.Toleration{{Key: "b"}, {Key: "a"}}}
	})
	clusters.AwaitReady()
	w.awaitCondition(namespace, "False FieldWithoutEffect")

	t.Cleanup(w.remove)
	w.install()
	first := w.await(namespace)
	w.expectContent(first)
	w.awaitCondition(namespace, "True ")
	w.play(first)
	stage.AwaitQuiet(t, time.Minute)
	w.expectRest()

	w.st.Edit(namespace, "demo", func(c *provv1.Cluster) { c.Labels["env"] = "changed" })
	plane.Until(t, soon, func() string { return wants(w.await(namespace).GetLabels(), "env", "changed") })
	if id := field(w.await(namespace), "spec", "clientID"); id != "chosen-by-fleet" {
		t.Errorf("Drover changed spec.clientID to %v", id)
	}

	w.disconnect(namespace)
	if now := w.await(namespace); now.GetUID() != first.GetUID() {
		t.Error("a disconnected cluster lost its Fleet Cluster")
	}

	w.remove()
	w.awaitCondition(namespace, "False FieldWithoutEffect")
	w.install()
	if again := w.await(namespace); again.GetUID() == first.GetUID() {
		t.Error("the CRD did not go")
	}
	clusters.Delete()
	plane.Until(t, soon, func() string { return w.st.Gone(object(namespace, "demo")) })
}

// TestFleetWorkspace creates, adopts and deletes workspaces.
func TestFleetWorkspace(t *testing.T) {
	w := &world{t, stage.Start(t, stage.Settings{})}
	w.install()
	t.Cleanup(w.remove)
	unique := plane.Namespace(t)
	name := "workspace-" + unique
	workspace := &mgmtv3.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{provv1.CreatorIDAnnotation: "alice"}}}
	w.check(w.st.Client.Create(t.Context(), workspace))
	w.awaitWorkspace(name, "True ")

	clusters := w.st.Apply(name, 2, map[string]string{"demo": stage.K3s})
	clusters.AwaitReady()
	w.await(name)
	w.check(w.st.Client.Delete(t.Context(), workspace))
	w.awaitWorkspace(name, "False ClustersInWorkspace")
	stage.AwaitQuiet(t, time.Minute)
	w.expectRest()
	clusters.Delete()
	plane.Until(t, soon, func() string { return w.st.Gone(workspace) })
	plane.Until(t, soon, func() string {
		return w.st.Gone(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	})

	adopted := "adopted-" + unique
	w.check(w.st.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: adopted}}))
	for _, gvk := range []string{"Bundle", "Cluster"} {
		theirs := object(adopted, "theirs")
		theirs.SetKind(gvk)
		w.check(w.st.Client.Create(t.Context(), theirs))
	}
	found := &mgmtv3.FleetWorkspace{}
	plane.Until(t, soon, func() string {
		return problem(w.st.Client.Get(t.Context(), client.ObjectKey{Name: adopted}, found))
	})
	if fleet.IsManaged(found) || len(found.OwnerReferences) != 1 {
		t.Errorf("an adopted FleetWorkspace: %+v", found.ObjectMeta)
	}
	w.check(w.st.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: adopted}}))
	plane.Until(t, soon, func() string { return w.st.Gone(found) })
}

// definition is a CRD of Fleet with an open schema.
func definition(kind, plural string) *apiextv1.CustomResourceDefinition {
	return &apiextv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".fleet.cattle.io"},
		Spec: apiextv1.CustomResourceDefinitionSpec{
			Group: "fleet.cattle.io", Scope: apiextv1.NamespaceScoped,
			Names: apiextv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural, Singular: strings.ToLower(kind),
				ListKind: kind + "List"},
			Versions: []apiextv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Subresources: &apiextv1.CustomResourceSubresources{Status: &apiextv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &apiextv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true)}},
			}},
		},
	}
}

func definitions() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for kind, plural := range map[string]string{"Cluster": "clusters", "Bundle": "bundles"} {
		content, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(definition(kind, plural))
		delete(content, "status")
		crd := &unstructured.Unstructured{Object: content}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		out = append(out, crd)
	}
	return out
}

// install adds Fleet's CRDs, after those of an earlier test are gone.
func (w *world) install() {
	w.Helper()
	for _, crd := range definitions() {
		plane.Until(w, soon, func() string { return problem(w.st.Client.Create(w.Context(), crd)) })
	}
}

// remove deletes Fleet's CRDs, also at the end of a test.
func (w *world) remove() {
	w.Helper()
	for _, crd := range definitions() {
		err := w.st.Client.Delete(context.WithoutCancel(w.Context()), crd)
		if !apierrors.IsNotFound(err) {
			w.check(err)
		}
	}
}

// object names a Fleet Cluster.
func object(namespace, name string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(fleet.ClusterKind)
	out.SetNamespace(namespace)
	out.SetName(name)
	return out
}

// await returns the Fleet Cluster of the cluster demo.
func (w *world) await(namespace string) *unstructured.Unstructured {
	w.Helper()
	found := object(namespace, "demo")
	plane.Until(w, soon, func() string {
		return problem(w.st.Client.Get(w.Context(), client.ObjectKeyFromObject(found), found))
	})
	return found
}

func (w *world) expectContent(found *unstructured.Unstructured) {
	w.Helper()
	cluster := &provv1.Cluster{}
	w.check(w.st.Client.Get(w.Context(), client.ObjectKeyFromObject(found), cluster))
	for key, want := range map[string]string{
		"env": "test", mgmtv3.ClusterNameLabel: cluster.Status.ClusterName, mgmtv3.ClusterDisplayNameLabel: "demo",
	} {
		if differs := wants(found.GetLabels(), key, want); differs != "" {
			w.Error(differs)
		}
	}
	tolerations := []any{map[string]any{"key": "a"}, map[string]any{"key": "b"}}
	if diff := cmp.Diff(any(tolerations), field(found, "spec", "agentTolerations")); diff != "" {
		w.Errorf("tolerations (-want +got):\n%s", diff)
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: fmt.Sprint(field(found, "spec", "kubeConfigSecretNamespace")),
		Name: fmt.Sprint(field(found, "spec", "kubeConfigSecret"))}
	w.check(w.st.Client.Get(w.Context(), key, secret))
	if _, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"]); err != nil {
		w.Errorf("Secret %s has no kubeconfig for Fleet: %v", key, err)
	}
}

// play writes what Fleet writes into a Fleet Cluster.
func (w *world) play(found *unstructured.Unstructured) {
	w.Helper()
	w.check(w.st.Client.Patch(w.Context(), found.DeepCopy(), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":["fleet.cattle.io/played"]},"spec":{"clientID":"chosen-by-fleet"}}`))))
	w.check(w.st.Client.Status().Patch(w.Context(), found.DeepCopy(), client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"agent":{"lastSeen":"2026-01-01T00:00:00Z"}}}`))))
	w.check(w.st.Client.Patch(w.Context(), found.DeepCopy(), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`))))
}

// disconnect ends the server of the cluster until Drover has noticed.
func (w *world) disconnect(namespace string) {
	w.Helper()
	var servers []string
	for name := range w.st.World.Machines(namespace) {
		if strings.Contains(name, "server") {
			servers = append(servers, name)
		}
	}
	if len(servers) != 1 {
		w.Fatalf("servers: %v", servers)
	}
	w.st.World.Silence(namespace, servers[0])
	defer w.st.World.Wake(namespace, servers[0])
	id := w.st.ManagementNames(namespace)[0]
	plane.Until(w, 5*time.Minute, func() string {
		management := &mgmtv3.Cluster{}
		if err := w.st.Client.Get(w.Context(), client.ObjectKey{Name: id}, management); err != nil {
			return err.Error()
		}
		if conditions.IsTrue(management.Status.Conditions, mgmtv3.ClusterConditionReady) {
			return "the management Cluster is still ready"
		}
		return ""
	})
}

// expectRest fails for each write of Drover in the time in which settled clusters rest.
func (w *world) expectRest() {
	w.Helper()
	since := time.Now()
	<-time.After(stage.Rest)
	stage.ExpectRest(w.T, since, stage.Rest)
}

// awaitCondition waits until condition FleetCluster of the cluster demo begins with STATUS REASON.
func (w *world) awaitCondition(namespace, want string) {
	w.Helper()
	plane.Until(w, soon, func() string {
		cluster := &provv1.Cluster{}
		key := client.ObjectKey{Namespace: namespace, Name: "demo"}
		if err := w.st.Client.Get(w.Context(), key, cluster); err != nil {
			return err.Error()
		}
		c := conditions.Get(cluster.Status.Conditions, provv1.ConditionFleetCluster)
		if c == nil || !strings.HasPrefix(c.Status+" "+c.Reason, want) {
			return fmt.Sprintf("condition FleetCluster is %+v, want %s", c, want)
		}
		return ""
	})
}

func (w *world) awaitWorkspace(name, want string) {
	w.Helper()
	plane.Until(w, soon, func() string {
		workspace := &mgmtv3.FleetWorkspace{}
		if err := w.st.Client.Get(w.Context(), client.ObjectKey{Name: name}, workspace); err != nil {
			return err.Error()
		}
		c := conditions.Get(workspace.Status.Conditions, mgmtv3.FleetWorkspaceConditionReady)
		if c == nil || !strings.HasPrefix(c.Status+" "+c.Reason, want) {
			return fmt.Sprintf("condition Ready is %+v, want %s", c, want)
		}
		return ""
	})
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func field(found *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(found.Object, path...)
	return value
}

func wants(labels map[string]string, key, want string) string {
	if labels[key] != want {
		return fmt.Sprintf("label %s is %q, want %q", key, labels[key], want)
	}
	return ""
}

func problem(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
