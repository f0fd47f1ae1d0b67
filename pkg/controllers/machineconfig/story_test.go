package machineconfig_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/machineconfig"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/clients"
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
	api     *memkube.Server
	user    *clients.Clients
	configs dynamic.ResourceInterface
	log     bytes.Buffer
}

// tell runs a test in virtual time, with a served kind of machine configs.
func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t}
		w.api = memkube.New(memkube.Options{Scheme: scheme, CRDs: append(definitions, podConfigs()),
			Namespaces: []string{"team"}, Permit: rights.Permit(t, agent)})
		w.user, err = clients.New(w.api.Config("user"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		live, err := dynamic.NewForConfig(w.api.Config("user"))
		must(t, err)
		w.configs = live.Resource(schema.GroupVersionResource{Group: "rke-machine-config.cattle.io", Version: "v1",
			Resource: "podconfigs"}).Namespace("team")
		c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test"})
		must(t, err)
		log := logrus.New()
		log.SetOutput(&w.log)
		must(t, machineconfig.Register(c.HandlerContext(), machineconfig.Deps{Dynamic: c.Dynamic,
			Clusters: c.Provisioning.Cluster(), Log: log}))
		workers, cancel := context.WithCancel(t.Context())
		must(t, c.Start(workers))
		defer func() {
			cancel()
			c.Stop()
			synctest.Wait()
		}()
		f(w)
	})
}

func podConfigs() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "podconfigs.rke-machine-config.cattle.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "rke-machine-config.cattle.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "podconfigs", Singular: "podconfig",
				Kind: "PodConfig", ListKind: "PodConfigList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true)}}}},
		},
	}
}

func (w *world) create(name string, edit func(*unstructured.Unstructured)) {
	w.Helper()
	config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rke-machine-config.cattle.io/v1",
		"kind": "PodConfig", "metadata": map[string]any{"name": name, "namespace": "team"}}}
	if edit != nil {
		edit(config)
	}
	_, err := w.configs.Create(w.Context(), config, metav1.CreateOptions{})
	must(w.T, err)
}

func (w *world) exists(name string) bool {
	w.Helper()
	_, err := w.configs.Get(w.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
	return err == nil
}

// cluster names a machine config, in a spec that Drover would refuse.
func (w *world) cluster(config string) {
	w.Helper()
	_, err := w.user.Provisioning.Cluster().Create(&provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "demo"},
		Spec: provv1.ClusterSpec{KubernetesVersion: "v1.36.2+k3s1", RKEConfig: &provv1.RKEConfig{
			MachinePools: []provv1.RKEMachinePool{{Name: "a", WorkerRole: true,
				NodeConfig: &corev1.ObjectReference{Kind: "PodConfig", Name: config}}}}},
	})
	must(w.T, err)
}

func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func annotated(value string) func(*unstructured.Unstructured) {
	return func(c *unstructured.Unstructured) {
		c.SetAnnotations(map[string]string{"provisioning.cattle.io/keep-machine-config": value})
	}
}

// An unused machine config is deleted after an hour. A used, owned or kept one stays.
func TestStory_UnusedMachineConfigs(t *testing.T) {
	tell(t, func(w *world) {
		owner, err := w.user.Core.ConfigMap().Create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "owner"}})
		must(t, err)
		owned := func(c *unstructured.Unstructured) {
			c.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner",
				UID: owner.UID}})
		}
		w.create("unused", nil)
		w.create("used", nil)
		w.create("owned", owned)
		w.create("kept", annotated("true"))
		w.create("no-longer-kept", annotated("false"))
		w.cluster("used")
		w.pass(59 * time.Minute)
		for _, name := range []string{"unused", "used", "owned", "kept", "no-longer-kept"} {
			if !w.exists(name) {
				t.Errorf("%s is gone before an hour", name)
			}
		}
		w.pass(2 * time.Minute)
		for name, want := range map[string]bool{"unused": false, "used": true, "owned": true, "kept": true,
			"no-longer-kept": false} {
			if w.exists(name) != want {
				t.Errorf("%s exists: %v", name, !want)
			}
		}
		if text := w.log.String(); !strings.Contains(text, "Deleted a machine config that no cluster uses") ||
			!strings.Contains(text, "name=unused") {
			t.Errorf("log: %s", text)
		}
		w.pass(6 * time.Hour)
		if !w.exists("used") || !w.exists("kept") {
			t.Error("a used or kept machine config is gone")
		}
		if written := w.api.Written(agent); written != 2 {
			t.Errorf("%d writes: %v", written, w.api.Count(agent))
		}
		must(t, w.user.Provisioning.Cluster().Delete("team", "demo", &metav1.DeleteOptions{}))
		w.pass(61 * time.Minute)
		if w.exists("used") {
			t.Error("the machine config of a deleted Cluster stays")
		}
	})
}

// A Cluster that is created at the last moment protects its machine config.
func TestStory_NewClusterProtectsItsMachineConfig(t *testing.T) {
	tell(t, func(w *world) {
		w.create("used", nil)
		w.pass(59 * time.Minute)
		w.cluster("used")
		w.pass(2 * time.Minute)
		if !w.exists("used") {
			t.Error("the machine config is gone")
		}
	})
}
