package adopt

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/pkg/server"
	"github.com/drover-io/drover/pkg/testkit/recorded"
	"github.com/drover-io/drover/tests/contract/audit"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

func TestMain(m *testing.M) {
	os.Exit(plane.Main(m, plane.Options{
		Components: []string{managementplane.ControllerManager},
		Controllers: []string{
			"garbage-collector-controller", "namespace-controller", "serviceaccount-controller",
			"serviceaccount-token-controller",
			"root-ca-certificate-publisher-controller",
		},
		WithoutCRDs: true,
	}))
}

const fleet = "fleet-default"

// TestAdopt starts a Drover server next to recorded clusters, one after the other. It writes nothing to them. `drover
// adopt` lists exactly what Drover then writes. Adopted clusters keep machines, plans and UIDs until their user edits
// them.
func TestAdopt(t *testing.T) {
	install(t)
	for _, tc := range []struct{ name, from string }{
		{recorded.RancherThreeServersTwoWorkers, "rancher"},
		{recorded.DroverOtherInstance, recorded.OtherInstance},
		{recorded.RancherOneServer, "rancher"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			made := w.make(tc.name)
			w.startDrover()
			w.writesNothing()
			before, plans := w.uids(made), w.plans()

			code, out := w.drover("adopt", "demo", "--idle", "0s")
			for _, want := range []string{"Result: ", "as found", "--from " + tc.from,
				"metadata.annotations[rke.cattle.io/cluster-spec]"} {
				if code != 0 || !strings.Contains(out, want) {
					t.Errorf("exit code %d, want %q in:\n%s", code, want, out)
				}
			}
			list := w.listed()
			if code, out = w.drover("adopt", "demo", "--yes", "--idle", "0s"); code != 1 ||
				!strings.Contains(out, "nothing was written") {
				t.Errorf("without --from: exit code %d:\n%s", code, out)
			}
			if code, out = w.drover("adopt", "demo", "--yes", "--idle", "0s", "--from", tc.from); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, out)
			}
			w.settles()
			if diff := cmp.Diff(list, w.written()); diff != "" {
				t.Errorf("the objects that Drover wrote differ from the list (-listed +written):\n%s", diff)
			}
			if diff := cmp.Diff(plans, w.plans()); diff != "" {
				t.Errorf("adoption changes plans:\n%s", diff)
			}
			code, out = w.drover("adopt", "demo")
			if code != 0 || strings.Contains(out, "Objects that differ") ||
				!strings.Contains(out, "which is also the adopting instance") {
				t.Errorf("adopted: exit code %d:\n%s", code, out)
			}

			w.edit()
			plane.Until(t, time.Minute, func() string {
				if n := changed(plans, w.plans()); n != 1 {
					return fmt.Sprintf("the edit has reached %d machines, want only the init node", n)
				}
				return ""
			})
			if diff := cmp.Diff(before, w.uids(made)); diff != "" {
				t.Errorf("objects were created again (-before +after):\n%s", diff)
			}
		})
	}
}

// install installs all CRDs: those of Drover and Cluster API, and those of the driver of the recorded machines.
func install(t *testing.T) {
	t.Helper()
	all, err := crds.All()
	check(t, err)
	core, err := crds.Read(os.DirFS(filepath.Join(plane.Root(t), "pkg", "kube", "capi", "crds")))
	check(t, err)
	field := mgmtv3.Field{Type: "string", Nullable: true, Create: true, Update: true}
	pod := driverschema.CRDs("pod",
		mgmtv3.DynamicSchemaSpec{ResourceFields: map[string]mgmtv3.Field{"image": field, "etcdTmpfs": field}})
	client, err := apiextclient.NewForConfig(plane.Config(t, "contract-tests"))
	check(t, err)
	_, err = crds.Ensure(t.Context(), client.ApiextensionsV1().CustomResourceDefinitions(),
		slices.Concat(all, core, pod), crds.Options{})
	check(t, err)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is the management cluster as an administrator sees it.
type world struct {
	*testing.T
	live  dynamic.Interface
	kube  kubernetes.Interface
	since time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	live, err := dynamic.NewForConfig(plane.Config(t, "contract-tests"))
	check(t, err)
	kube, err := kubernetes.NewForConfig(plane.Config(t, "contract-tests"))
	check(t, err)
	return &world{T: t, live: live, kube: kube}
}

// make creates a recorded cluster. At the end of the test it removes the cluster by force.
func (w *world) make(name string) []*unstructured.Unstructured {
	w.Helper()
	objects, err := recorded.Load(name)
	check(w.T, err)
	return w.makeAll(objects)
}

// namespace creates the namespace of the clusters.
func (w *world) namespace() {
	w.Helper()
	_, err := w.kube.CoreV1().Namespaces().Create(w.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet}}, metav1.CreateOptions{})
	if err != nil && !strings.Contains(err.Error(), "already exists") {
		w.Fatal(err)
	}
}

func (w *world) client(object *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := object.GroupVersionKind()
	return w.live.Resource(gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")).Namespace(
		object.GetNamespace())
}

func (w *world) takeAway(made []*unstructured.Unstructured) {
	ctx := context.WithoutCancel(w.Context())
	for _, object := range slices.Backward(made) {
		_, _ = w.client(object).Patch(ctx, object.GetName(), types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		_ = w.client(object).Delete(ctx, object.GetName(), metav1.DeleteOptions{})
	}
	left := ""
	// The context of the test has ended, as always during a cleanup.
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			for _, object := range made {
				if _, err := w.client(object).Get(ctx, object.GetName(), metav1.GetOptions{}); err == nil {
					left = object.GetKind() + " " + object.GetName()
					return false, nil
				}
			}
			return true, nil
		})
	if err != nil {
		w.Errorf("%s still exists: %v", left, err)
	}
}

// startDrover runs Drover with the chart's account until the test ends, together with a Cluster API core that does
// nothing.
func (w *world) startDrover() {
	w.Helper()
	log := logrus.New()
	log.SetOutput(w.Output())
	drover, err := server.New(server.Options{
		RESTConfig: stage.AccountConfig(w.T, server.CAPIExternal), InstanceID: "adopter", Version: "contract",
		CAPI: server.CAPIExternal, Log: log,
		Reach: server.Reach{AllowLoopback: true},
		Settings: server.Settings{ServerURL: "https://drover.example.com",
			SystemAgentInstallerImage: "rancher/system-agent-installer-"},
	})
	check(w.T, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	ended := make(chan error, 1)
	go func() { ended <- drover.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("Drover has ended: %v", err)
		}
	})
	plane.Until(w.T, time.Minute, func() string {
		if err := drover.Ready(); err != nil {
			return err.Error()
		}
		return ""
	})
}

// writes returns the writes of Drover's server to objects of the cluster.
func (w *world) writes(since time.Time) []audit.Write {
	w.Helper()
	return slices.DeleteFunc(plane.Writes(w.T, "drover/contract", since), func(write audit.Write) bool {
		return write.Namespace != fleet && !strings.HasPrefix(write.Namespace, "c-m-") &&
			!strings.HasPrefix(write.Name, "c-m-")
	})
}

// rest is the time in which there must be no write.
const rest = 20 * time.Second

// writesNothing checks that Drover sees the cluster without writing to it.
func (w *world) writesNothing() {
	w.Helper()
	plane.Until(w.T, time.Minute, func() string { // Drover writes its settings first, once its controllers run
		list, err := w.kube.CoreV1().ConfigMaps("drover-system").List(w.Context(),
			metav1.ListOptions{LabelSelector: "drover.io/settings=true"})
		if err != nil || len(list.Items) == 0 {
			return "Drover has not published its settings"
		}
		return ""
	})
	plane.Until(w.T, rest+time.Second, func() string {
		if time.Since(w.since) < rest {
			return "still watching"
		}
		return ""
	})
	for _, write := range w.writes(w.since) {
		w.Errorf("a cluster of another manager is written: %+v", write)
	}
}

// settles waits until Drover has made all writes of an adoption.
func (w *world) settles() {
	w.Helper()
	plane.Until(w.T, time.Minute, func() string {
		if len(w.writes(w.since)) == 0 {
			return "Drover does not manage the cluster yet"
		}
		return ""
	})
	plane.Until(w.T, 2*time.Minute, func() string {
		if n := len(w.writes(time.Now().Add(-10 * time.Second))); n > 0 {
			return "Drover still writes"
		}
		return ""
	})
}

// drover runs the program and returns its exit code and its output.
func (w *world) drover(args ...string) (code int, out string) {
	w.Helper()
	program, err := plane.Binary("drover")
	check(w.T, err)
	cmd := exec.CommandContext(w.Context(), program, append(args, "--kubeconfig", plane.Kubeconfig(w.T))...)
	said, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		w.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(said)
}

func (w *world) uids(made []*unstructured.Unstructured) map[string]types.UID {
	w.Helper()
	out := map[string]types.UID{}
	for _, object := range made {
		live, err := w.client(object).Get(w.Context(), object.GetName(), metav1.GetOptions{})
		check(w.T, err)
		out[object.GetKind()+" "+object.GetName()] = live.GetUID()
	}
	return out
}

func (w *world) plans() map[string]string {
	w.Helper()
	list, err := w.kube.CoreV1().Secrets(fleet).List(w.Context(),
		metav1.ListOptions{FieldSelector: "type=rke.cattle.io/machine-plan"})
	check(w.T, err)
	out := map[string]string{}
	for i := range list.Items {
		out[list.Items[i].Name] = string(list.Items[i].Data["plan"])
	}
	return out
}

func changed(before, after map[string]string) int {
	n := 0
	for name := range before {
		if before[name] != after[name] {
			n++
		}
	}
	return n
}

// edit changes the configuration as the user of the cluster would.
func (w *world) edit() {
	w.Helper()
	clusters := w.live.Resource(schema.GroupVersionResource{Group: "provisioning.cattle.io", Version: "v1",
		Resource: "clusters"}).Namespace(fleet)
	_, err := clusters.Patch(w.Context(), "demo", types.MergePatchType,
		[]byte(`{"spec":{"rkeConfig":{"machineGlobalConfig":{"debug":true}}}}`), metav1.PatchOptions{})
	check(w.T, err)
}
