package fleetcluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/fleetcluster"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	instance = "instance-1"
	id       = "c-m-12345678"
	home     = "fleet-default"
	agent    = "drover/test"
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// world is a management cluster with the running controller, and one ready cluster.
type world struct {
	*testing.T
	api        *memkube.Server
	user       *clients.Clients
	controller *fleetcluster.Controller
	stop       func()
	// cut is closed when the process is killed; nil if the test does not kill it.
	cut chan struct{}
}

// tell runs a test in virtual time.
func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	inWorld(t, f)
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t}
		w.api = memkube.New(memkube.Options{
			Scheme: scheme, CRDs: definitions, Namespaces: []string{home, "team-a", id},
			Permit: rights.Permit(t, agent),
		})
		must(t, w.api.Add(management(rkev1.ConditionTrue), cluster(), kubeconfig()))
		w.user, err = clients.New(w.api.Config("ignored"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		w.start()
		defer func() { w.stop() }()
		f(w)
	})
}

func management(ready string) *mgmtv3.Cluster {
	return &mgmtv3.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: id, Labels: map[string]string{"env": "test",
			"objectset.rio.cattle.io/hash": "of-another-set"}, Annotations: map[string]string{"note": "a"}},
		Spec: mgmtv3.ClusterSpec{DisplayName: "demo",
			AgentEnvVars:   []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}},
			ClusterSecrets: mgmtv3.ClusterSecrets{PrivateRegistryURL: "registry.example.com"}},
		Status: mgmtv3.ClusterStatus{Conditions: []rkev1.GenericCondition{
			{Type: mgmtv3.ClusterConditionReady, Status: ready}}},
	}
}

func cluster() *provv1.Cluster {
	return &provv1.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "demo",
			Annotations: map[string]string{rkev1.InstanceAnnotation: instance}},
		Status: provv1.ClusterStatus{ClusterName: id, ClientSecretName: "demo-kubeconfig", Ready: true},
	}
}

func kubeconfig() *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "demo-kubeconfig"},
		Data:       map[string][]byte{"value": []byte("kubeconfig")},
	}
}

// definition is a CRD of Fleet with an open schema.
func definition(kind, plural string) *apiextv1.CustomResourceDefinition {
	return &apiextv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".fleet.cattle.io"},
		Spec: apiextv1.CustomResourceDefinitionSpec{
			Group: "fleet.cattle.io", Scope: apiextv1.NamespaceScoped,
			Names: apiextv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural, Singular: strings.ToLower(kind),
				ListKind: kind + "List"},
			Versions: []apiextv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextv1.CustomResourceValidation{OpenAPIV3Schema: &apiextv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true)}},
			}},
		},
	}
}

// installFleet adds Fleet's CRDs.
func (w *world) installFleet() {
	w.Helper()
	_, err := w.user.CRDs.CustomResourceDefinition().Create(definition("Cluster", "clusters"))
	must(w.T, err)
	_, err = w.user.CRDs.CustomResourceDefinition().Create(definition("Bundle", "bundles"))
	must(w.T, err)
	w.pass(10 * time.Second)
}

func (w *world) removeFleet() {
	w.Helper()
	for _, name := range []string{"clusters.fleet.cattle.io", "bundles.fleet.cattle.io"} {
		must(w.T, w.user.CRDs.CustomResourceDefinition().Delete(name, &metav1.DeleteOptions{}))
	}
	w.pass(10 * time.Second)
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test"})
	must(w.T, err)
	w.controller = fleetcluster.New(c.HandlerContext(), fleetcluster.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(), Secrets: c.Core.Secret(),
		Namespaces: c.Core.Namespace(), CRDs: c.CRDs.CustomResourceDefinition(), Kinds: c.Dynamic, Apply: c.Apply,
		InstanceID: instance,
	})
	must(w.T, w.controller.Register())
	workers, cancel := context.WithCancel(w.Context())
	if err := c.Start(workers); err != nil {
		w.Log("the controller did not start:", err) // it was killed while starting
	}
	w.stop = func() {
		cancel()
		c.Stop()
		synctest.Wait()
	}
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

// fleetClusters returns the Fleet Clusters as namespace/name.
func (w *world) fleetClusters() []string {
	out := []string{}
	for _, object := range w.api.Objects(fleet.ClusterKind) {
		out = append(out, object.GetNamespace()+"/"+object.GetName())
	}
	return out
}

func (w *world) wantFleetClusters(when string, want ...string) {
	w.Helper()
	if diff := cmp.Diff(append([]string{}, want...), w.fleetClusters()); diff != "" {
		w.Errorf("%s: Fleet Clusters (-want +got):\n%s", when, diff)
	}
}

// edit changes the Cluster as a user.
func (w *world) edit(change func(c *provv1.Cluster)) {
	w.Helper()
	found, err := w.user.Provisioning.Cluster().Get(home, "demo", metav1.GetOptions{})
	must(w.T, err)
	change(found)
	_, err = w.user.Provisioning.Cluster().Update(found)
	must(w.T, err)
	w.pass(10 * time.Second)
}

// wantCondition compares condition FleetCluster with STATUS REASON MESSAGE; "" means that it is absent.
func (w *world) wantCondition(when, want string) {
	w.Helper()
	found, err := w.user.Provisioning.Cluster().Get(home, "demo", metav1.GetOptions{})
	must(w.T, err)
	got := ""
	if c := conditions.Get(found.Status.Conditions, provv1.ConditionFleetCluster); c != nil {
		got = strings.TrimSpace(c.Status + " " + c.Reason + " " + c.Message)
	}
	if got != want {
		w.Errorf("%s: condition\n  %q, want\n  %q", when, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStory_FleetComesAndGoes(t *testing.T) {
	tell(t, func(w *world) {
		w.pass(time.Minute)
		w.wantFleetClusters("without Fleet")
		w.installFleet()
		w.wantFleetClusters("with Fleet", "fleet-default/demo")
		object := w.api.Objects(fleet.ClusterKind)[0]
		if _, found, _ := unstructured.NestedString(object.Object, "spec", "clientID"); found {
			t.Error("Drover writes spec.clientID, which is Fleet's")
		}
		w.quiet(time.Hour)

		// Fleet and users add fields, which stay when Drover changes its own.
		must(w.T, unstructured.SetNestedField(object.Object, "fleet-chose-this", "spec", "clientID"))
		must(w.T, unstructured.SetNestedField(object.Object, int64(1), "spec", "redeployAgentGeneration"))
		labels := object.GetLabels()
		labels["of-a-user"] = "yes"
		object.SetLabels(labels)
		w.update(object)
		w.edit(func(c *provv1.Cluster) {
			c.Spec.FleetAgentDeploymentCustomization = &provv1.AgentDeploymentCustomization{
				AppendTolerations: []corev1.Toleration{{Key: "b"}, {Key: "a"}}}
		})
		object = w.api.Objects(fleet.ClusterKind)[0]
		client, _, _ := unstructured.NestedString(object.Object, "spec", "clientID")
		tolerations, _, _ := unstructured.NestedSlice(object.Object, "spec", "agentTolerations")
		redeploy, _, _ := unstructured.NestedInt64(object.Object, "spec", "redeployAgentGeneration")
		if client != "fleet-chose-this" || redeploy != 1 || object.GetLabels()["of-a-user"] != "yes" ||
			len(tolerations) != 2 {
			t.Errorf("after a change: %v", object.Object)
		}
		w.quiet(time.Hour)

		w.removeFleet()
		w.wantCondition("without Fleet", "False FieldWithoutEffect spec.fleetAgentDeploymentCustomization: has no "+
			"effect: Fleet is not installed here; install Fleet, or remove the field")
		w.quiet(time.Hour)
		w.installFleet()
		w.wantFleetClusters("Fleet is back", "fleet-default/demo")
		w.wantCondition("Fleet is back", "True")
		w.stop()
		w.start()
		w.quiet(time.Hour)
	})
}

// update writes a Fleet Cluster as Fleet or a user.
func (w *world) update(object *unstructured.Unstructured) {
	w.Helper()
	must(w.T, w.api.Add(object))
	w.pass(10 * time.Second)
}

func TestStory_ADisconnectKeepsTheFleetCluster(t *testing.T) {
	tell(t, func(w *world) {
		must(w.T, w.api.Add(management(rkev1.ConditionFalse)))
		w.installFleet()
		w.wantFleetClusters("before the cluster is ready")
		must(w.T, w.api.Add(management(rkev1.ConditionTrue)))
		w.pass(10 * time.Second)
		w.wantFleetClusters("the cluster is ready", "fleet-default/demo")
		must(w.T, w.api.Add(management(rkev1.ConditionFalse)))
		must(w.T, w.user.Core.Secret().Delete(home, "demo-kubeconfig", &metav1.DeleteOptions{}))
		w.pass(time.Hour)
		w.wantFleetClusters("the cluster is disconnected", "fleet-default/demo")
	})
}

func TestStory_AnotherFleetClusterStays(t *testing.T) {
	tell(t, func(w *world) {
		w.installFleet()
		w.wantFleetClusters("at first", "fleet-default/demo")
		w.stop()
		other := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clientID": "theirs"}}}
		other.SetGroupVersionKind(fleet.ClusterKind)
		other.SetNamespace(home)
		other.SetName("demo")
		must(w.T, w.api.Add(other))
		w.start()
		w.pass(time.Minute)
		w.wantCondition("the name is taken", "False FleetClusterTaken Fleet Cluster fleet-default/demo exists, and "+
			"Drover did not make it for this Cluster: delete or rename it, or choose another name for the Cluster")
		w.quiet(time.Hour)
		if spec := w.api.Objects(fleet.ClusterKind)[0].Object["spec"]; len(spec.(map[string]any)) != 1 {
			t.Errorf("Drover changed the object of another program: %v", spec)
		}
		w.removeFleet()
		w.installFleet()
		w.wantFleetClusters("the name is free", "fleet-default/demo")
		w.wantCondition("the name is free", "True")
	})
}

func TestStory_AWorkspaceElsewhereNeedsConsent(t *testing.T) {
	tell(t, func(w *world) {
		w.installFleet()
		move := func(to string) {
			w.edit(func(c *provv1.Cluster) { c.Annotations[provv1.FleetWorkspaceNameAnnotation] = to })
		}
		const at = "metadata.annotations[provisioning.cattle.io/fleet-workspace-name]: "
		move("missing")
		w.wantCondition("no namespace", "Unknown Waiting "+at+"Waiting for namespace missing, which does not exist")
		move("team-a")
		w.wantCondition("no consent", "False FleetWorkspaceRefused "+at+"namespace team-a does not admit the Cluster: "+
			"list fleet-default/demo in annotation rke.cattle.io/object-authorized-for-clusters of Namespace team-a, "+
			"or remove the annotation")
		w.wantFleetClusters("no consent", "fleet-default/demo")
		namespace, err := w.user.Core.Namespace().Get("team-a", metav1.GetOptions{})
		must(w.T, err)
		namespace.Annotations = map[string]string{rkev1.AuthorizedObjectAnnotation: "fleet-default/*"}
		_, err = w.user.Core.Namespace().Update(namespace)
		must(w.T, err)
		w.pass(10 * time.Second)
		w.wantFleetClusters("with consent", "team-a/demo")
		w.wantCondition("with consent", "True")
		w.quiet(time.Hour)
	})
}

func TestStory_TheFleetClusterGoesWithTheCluster(t *testing.T) {
	tell(t, func(w *world) {
		w.installFleet()
		w.wantFleetClusters("at first", "fleet-default/demo")
		found, err := w.user.Provisioning.Cluster().Get(home, "demo", metav1.GetOptions{})
		must(w.T, err)
		must(w.T, w.controller.Remove(found))
		w.wantFleetClusters("removed")
		w.removeFleet()
		must(w.T, w.controller.Remove(found))
	})
}

// Fleet's finalizer stays on the Fleet Cluster if Fleet was uninstalled and its CRDs were not. The removal of the
// Cluster does not wait for it.
func TestStory_RemovalDoesNotWaitForFleet(t *testing.T) {
	tell(t, func(w *world) {
		w.installFleet()
		object := w.api.Objects(fleet.ClusterKind)[0]
		object.SetFinalizers([]string{"fleet.cattle.io/cluster-finalizer"})
		w.update(object)
		found, err := w.user.Provisioning.Cluster().Get(home, "demo", metav1.GetOptions{})
		must(w.T, err)
		must(w.T, w.controller.Remove(found))
		w.pass(10 * time.Second)
		object = w.api.Objects(fleet.ClusterKind)[0]
		if object.GetDeletionTimestamp() == nil || len(object.GetFinalizers()) != 1 {
			t.Errorf("Fleet Cluster after its deletion: %v", object.Object["metadata"])
		}
		w.api.ResetLog()
		must(w.T, w.controller.Remove(found))
		if writes := w.api.Writes(agent); len(writes) > 0 {
			t.Errorf("a second removal writes: %v", writes)
		}
		w.quiet(time.Hour)
		user, err := dynamic.NewForConfig(w.api.Config("ignored"))
		must(w.T, err)
		object.SetFinalizers(nil)
		_, err = user.Resource(fleet.ClusterKind.GroupVersion().WithResource("clusters")).Namespace(home).Update(
			w.Context(), object, metav1.UpdateOptions{})
		must(w.T, err)
		w.pass(10 * time.Second)
		if now := w.api.Objects(fleet.ClusterKind)[0]; now.GetUID() == object.GetUID() {
			t.Error("the Cluster, which still exists, has no new Fleet Cluster")
		}
	})
}

func TestStory_OtherManagersKeepTheirClusters(t *testing.T) {
	for name, change := range map[string]func(c *provv1.Cluster){
		"another instance":   func(c *provv1.Cluster) { c.Annotations[rkev1.InstanceAnnotation] = "other" },
		"managed externally": func(c *provv1.Cluster) { c.Annotations[provv1.ExternallyManagedAnnotation] = "true" },
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				w.edit(change)
				w.installFleet()
				w.wantFleetClusters(name)
			})
		})
	}
}

// A Fleet Cluster is made and moved wherever the process is killed.
func TestStory_FleetClusterWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	crashpoints.Each(t, 4, func(t *testing.T, n int) (writes int) {
		t.Helper()
		inWorld(t, func(w *world) {
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			w.installFleet()
			w.wantFleetClusters(fmt.Sprint("killed after write ", n), "fleet-default/demo")
			namespace, err := w.user.Core.Namespace().Get("team-a", metav1.GetOptions{})
			must(w.T, err)
			namespace.Annotations = map[string]string{rkev1.AuthorizedObjectAnnotation: "fleet-default/demo"}
			_, err = w.user.Core.Namespace().Update(namespace)
			must(w.T, err)
			w.edit(func(c *provv1.Cluster) { c.Annotations[provv1.FleetWorkspaceNameAnnotation] = "team-a" })
			w.wantFleetClusters(fmt.Sprint("killed after write ", n), "team-a/demo")
			writes = w.api.Written(agent)
			w.pass(time.Minute) // restarts the controller if it was killed at the very end
			w.quiet(time.Hour)
		})
		return writes
	})
}
