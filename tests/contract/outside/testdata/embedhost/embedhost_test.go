// Package embedhost is a program with its own lasso controllers that also starts Drover.
package embedhost

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	lassoclient "github.com/rancher/lasso/pkg/client"
	lassocontroller "github.com/rancher/lasso/pkg/controller"
	"github.com/rancher/wrangler/v3/pkg/schemes"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/capi"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/server"
)

const (
	namespace = "fleet-default"
	version   = "v1.36.2+k3s1"
	// instance is the annotation with which Drover marks the Clusters that it manages.
	instance = "drover.io/instance"
)

func TestMain(m *testing.M) {
	if err := registerTypes(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func config(t *testing.T, userAgent string) *rest.Config {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		t.Fatal("KUBECONFIG must name the kubeconfig of a management cluster")
	}
	c, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	c.QPS, c.UserAgent = -1, userAgent
	return c
}

// until waits for a condition, which returns what is missing.
func until(t *testing.T, condition func() string) {
	t.Helper()
	deadline, tick := time.NewTimer(2*time.Minute), time.NewTicker(100*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for {
		missing := condition()
		if missing == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("still not: ", missing)
		}
	}
}

// run runs Drover until the returned function is called, and waits until it is ready. Drover must end on request.
func run(t *testing.T, opts server.Options) (stop func()) {
	t.Helper()
	opts.Version, opts.Settings.ServerURL = "embedded", "https://host.example.org"
	opts.RESTConfig = config(t, "")
	opts.Log = logger(t)
	s, err := server.New(opts)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Drover ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Drover does not end with its context")
		}
	})
	t.Cleanup(stop)
	until(t, func() string {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("Drover ended before it was ready: %v", err)
		default:
		}
		if err := s.Ready(); err != nil {
			return err.Error()
		}
		if !s.Leading() {
			return "controllers run"
		}
		return ""
	})
	return stop
}

func logger(t *testing.T) logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(t.Output())
	return log
}

// seen records what a handler of the host has seen: the newest state of each object, as the host's Go types.
type seen struct {
	mu      sync.Mutex
	objects map[string]runtime.Object
}

func (s *seen) get(name string) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[namespace+"/"+name]
}

// watch adds a handler of the host to the host's factory.
func watch(t *testing.T, ctx context.Context, factory lassocontroller.SharedControllerFactory,
	gvk schema.GroupVersionKind) *seen {
	t.Helper()
	s := &seen{objects: map[string]runtime.Object{}}
	controller, err := factory.ForKind(gvk)
	must(t, err)
	controller.RegisterHandler(ctx, "of-the-host",
		lassocontroller.SharedControllerHandlerFunc(func(key string, obj runtime.Object) (runtime.Object, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.objects[key] = obj
			return obj, nil
		}))
	return s
}

func clientOf(t *testing.T, factory lassocontroller.SharedControllerFactory,
	gvk schema.GroupVersionKind) *lassoclient.Client {
	t.Helper()
	client, err := factory.SharedCacheFactory().SharedClientFactory().ForKind(gvk)
	must(t, err)
	return client
}

// The host's types are in the process-wide scheme. Drover uses its own scheme, and each sees the other's objects.
func TestBesideAHostWithTypesOfItsOwn(t *testing.T) {
	run(t, server.Options{InstanceID: "beside", CAPI: server.CAPIEmbedded})

	factory, err := lassocontroller.NewSharedControllerFactoryFromConfig(config(t, "the-host"), schemes.All)
	must(t, err)
	gvk := provisioning.WithKind("Cluster")
	clusters := watch(t, t.Context(), factory, gvk)
	must(t, factory.Start(t.Context(), 2))

	wanted := &Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "beside"},
		Spec: ClusterSpec{KubernetesVersion: version,
			RKEConfig: map[string]any{"networking": map[string]any{"stackPreference": "ipv4"}}},
	}
	must(t, clientOf(t, factory, gvk).Create(t.Context(), namespace, wanted, &Cluster{}, metav1.CreateOptions{}))
	until(t, func() string {
		cluster, ok := clusters.get("beside").(*Cluster)
		switch {
		case !ok:
			return fmt.Sprintf("the host sees its Cluster as its own type; it sees %T", clusters.get("beside"))
		case cluster.Annotations[instance] != "beside":
			return "Drover has marked the Cluster"
		case cluster.Status.ClusterName == "":
			return "Drover has set the management name of the Cluster"
		}
		return ""
	})

	controlPlane := schema.GroupVersionKind{Group: "rke.cattle.io", Version: "v1", Kind: "RKEControlPlane"}
	until(t, func() string {
		made := &Other{}
		if err := clientOf(t, factory, controlPlane).Get(t.Context(), namespace, "beside", made,
			metav1.GetOptions{}); err != nil {
			return "Drover has created the control plane: " + err.Error()
		}
		return ""
	})
}

// A host with Drover's types in its factory lends it to Drover, with its caches. Its own handlers continue when Drover
// ends.
func TestInAHostsFactory(t *testing.T) {
	installDefinitions(t)
	scheme, err := clients.NewScheme()
	must(t, err)
	factory, err := lassocontroller.NewSharedControllerFactoryFromConfig(config(t, "the-host"), scheme)
	must(t, err)
	gvk := provv1.SchemeGroupVersion.WithKind("Cluster")
	clusters := watch(t, t.Context(), factory, gvk)
	must(t, factory.Start(t.Context(), 2))

	stop := run(t, server.Options{InstanceID: "lent", CAPI: server.CAPIExternal, CRDs: server.CRDsHost,
		ControllerFactory: factory})
	create := func(name string) {
		must(t, clientOf(t, factory, gvk).Create(t.Context(), namespace, &provv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       provv1.ClusterSpec{KubernetesVersion: version, RKEConfig: &provv1.RKEConfig{}},
		}, &provv1.Cluster{}, metav1.CreateOptions{}))
	}
	create("lent")
	until(t, func() string {
		cluster, ok := clusters.get("lent").(*provv1.Cluster)
		switch {
		case !ok:
			return fmt.Sprintf("the host sees the Cluster; it sees %T", clusters.get("lent"))
		case cluster.Annotations[instance] != "lent" || cluster.Status.ClusterName == "":
			return "Drover has marked and named the Cluster"
		}
		return ""
	})

	stop()
	create("late")
	until(t, func() string {
		if clusters.get("late") == nil {
			return "the host's handler outlives Drover"
		}
		return ""
	})
	if late := clusters.get("late").(*provv1.Cluster); late.Annotations[instance] != "" {
		t.Errorf("Drover has ended, but marked a Cluster with %s", late.Annotations[instance])
	}
}

// Drover would panic on the first object of such a factory. It returns an error instead, which describes the remedy.
func TestInAFactoryWithOtherTypes(t *testing.T) {
	factory, err := lassocontroller.NewSharedControllerFactoryFromConfig(config(t, "the-host"), schemes.All)
	must(t, err)
	_, err = server.New(server.Options{
		RESTConfig: config(t, ""), InstanceID: "refused", ControllerFactory: factory,
		Settings: server.Settings{ServerURL: "https://host.example.org"},
	})
	if err == nil ||
		!strings.Contains(err.Error(),
			"provisioning.cattle.io/v1, Kind=Cluster is *embedhost.Cluster in the embedding program's scheme") ||
		!strings.Contains(err.Error(), "or let Drover create its own factory") {
		t.Errorf("error is %v, want one with the kind, the type and the solution", err)
	}
}

// installDefinitions installs the CRDs, which a product that embeds Drover does long before.
func installDefinitions(t *testing.T) {
	t.Helper()
	client, err := apiextclient.NewForConfig(config(t, "the-host"))
	must(t, err)
	core, err := capi.Definitions()
	must(t, err)
	own, err := crds.All()
	must(t, err)
	_, err = crds.Ensure(t.Context(), client.ApiextensionsV1().CustomResourceDefinitions(), append(core, own...),
		crds.Options{})
	must(t, err)
	kube, err := kubernetes.NewForConfig(config(t, "the-host"))
	must(t, err)
	_, err = kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}
