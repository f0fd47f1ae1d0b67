package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/tests/testbed/distro"
	"github.com/drover-io/drover/tests/testbed/rig"
)

const (
	namespace    = "fleet-default"
	readyTimeout = 4 * time.Minute
	goneTimeout  = 3 * time.Minute
)

var (
	namespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secretsResource    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	jobsResource       = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	machinesResource   = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2",
		Resource: "machines"}
)

// world is a rig with helpers for tests.
type world struct {
	*rig.Rig
	t       *testing.T
	objects dynamic.Interface
	host    hostScope
}

// newWorld starts a rig with the installers of the given versions, or of one version for each distribution. At the end
// it checks that nothing of the rig is left on the host.
func newWorld(t *testing.T, name string, versions ...string) *world {
	t.Helper()
	return newWorldWith(t, name, func(*rig.Options) {}, versions...)
}

// newWorldWith is newWorld with changed options.
func newWorldWith(t *testing.T, name string, change func(*rig.Options), versions ...string) *world {
	t.Helper()
	if len(versions) == 0 {
		versions = []string{"v1.36.3+k3s1", "v1.36.3+rke2r1"}
	}
	machineImage(t)
	cache, err := os.UserCacheDir()
	must(t, err)
	log, err := os.Create(filepath.Join(t.TempDir(), "rig.log"))
	must(t, err)
	options := rig.Options{
		Name: name, Dir: filepath.Join(os.TempDir(), "drover-e2e-"+name), Bin: binFolder(t),
		Cache:    filepath.Join(cache, "drover", "images"),
		Versions: versions, Log: log, Installers: givenInstallers(),
	}
	change(&options)
	// A killed run left its rig. The folder always has the same name, so that the next run finds it.
	must(t, rig.Destroy(t.Context(), options))
	w := &world{t: t, host: hostScope{name: name, dir: options.Dir}}
	before := w.host.inventory(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		if w.Rig != nil {
			w.checkDisruptions(ctx)
			if t.Failed() {
				t.Logf("%s", w.evidence(ctx))
			}
			if err := w.Stop(ctx); err != nil {
				t.Errorf("stop rig: %v", err)
			}
		}
		if err := rig.Destroy(ctx, options); err != nil {
			t.Errorf("destroy rig: %v", err)
		}
		if diff := cmp.Diff(before, w.host.inventory(t)); diff != "" {
			t.Errorf("the rig left objects on the host (-before +after):\n%s", diff)
		}
	})
	w.Rig, err = rig.Start(t.Context(), options)
	must(t, err)
	w.objects, err = dynamic.NewForConfig(w.Config)
	must(t, err)
	return w
}

// checkDisruptions fails if a machine was restarted, drained or replaced without a user's wish.
func (w *world) checkDisruptions(ctx context.Context) {
	w.t.Helper()
	counts, err := w.Disruptions(ctx)
	if err != nil {
		w.t.Errorf("disruptions: %v", err)
	}
	if problem := counts.Problem(); problem != "" {
		w.t.Error(problem)
	}
}

// evidence returns the state of the cluster and the end of Drover's log, to explain a failure.
func (w *world) evidence(ctx context.Context) string {
	log, _ := os.ReadFile(filepath.Join(w.Dir, "logs", "drover-server.log"))
	const most = 6000
	if len(log) > most {
		log = log[len(log)-most:]
	}
	return w.Explain(ctx, w.host.name) + "\n" + string(log)
}

// givenInstallers returns the paths of real distributions (make test-e2e INSTALLER=…).
func givenInstallers() []string { return filepath.SplitList(os.Getenv("DROVER_INSTALLER")) }

// installed returns the version that runs in place of a version of the stand-in: the real distribution's, if there is
// one of the same name.
func (w *world) installed(version string) string {
	if release := w.Release(distro.RuntimeOf(version)); release != "" {
		return release
	}
	return version
}

var kubernetesVersion = regexp.MustCompile(`(kubernetesVersion: )(v\S+)`)

// Apply applies a manifest with the versions that are installed.
func (w *world) Apply(ctx context.Context, manifest []byte) error {
	return w.Rig.Apply(ctx, kubernetesVersion.ReplaceAllFunc(manifest, func(setting []byte) []byte {
		words := kubernetesVersion.FindSubmatch(setting)
		return append(words[1], w.installed(string(words[2]))...)
	}))
}

// cluster returns the manifest of a cluster of one machine with every role.
func cluster(name, version string) []byte {
	return manifest(name, version, pool{"pool1", 1, "ecw"})
}

// pool is a machine pool of a cluster. Roles are letters: etcd, control plane, worker.
type pool struct {
	name     string
	quantity int
	roles    string
}

// manifest returns the manifest of a cluster with these pools.
func manifest(name, version string, pools ...pool) []byte {
	text := fmt.Appendf(nil, `
apiVersion: rke-machine-config.cattle.io/v1
kind: NspawnConfig
metadata: {name: %[1]s, namespace: fleet-default}
---
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: %[1]s, namespace: fleet-default}
spec:
  kubernetesVersion: %[2]s
  cloudCredentialSecretName: cattle-global-data:cc-lab
  rkeConfig:
    machinePools:
`, name, version)
	for _, p := range pools {
		has := func(role string) bool { return strings.Contains(p.roles, role) }
		text = fmt.Appendf(text,
			"      - {name: %s, quantity: %d, etcdRole: %t, controlPlaneRole: %t, workerRole: %t, machineConfigRef: "+
				"{kind: NspawnConfig, name: %s}}\n",
			p.name, p.quantity, has("e"), has("c"), has("w"), name)
	}
	return text
}

func (w *world) awaitReady(name string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), readyTimeout)
	defer cancel()
	start := time.Now()
	must(w.t, w.AwaitReady(ctx, name, &rig.Progress{Out: testWriter{w.t}}))
	w.t.Logf("cluster %s became ready after %s", name, time.Since(start).Round(time.Second))
}

func (w *world) deleteCluster(name string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), goneTimeout)
	defer cancel()
	must(w.t, w.DeleteCluster(ctx, name))
}

// eventually waits for a condition on objects.
func (w *world) eventually(what string, done func() (bool, error)) {
	w.t.Helper()
	var err error
	if !w.comesTrue(func() bool {
		var ok bool
		ok, err = done()
		return ok
	}) {
		w.t.Fatalf("%s did not happen: %v", what, err)
	}
}

// comesTrue reports whether a condition comes true in time.
func (w *world) comesTrue(done func() bool) bool {
	w.t.Helper()
	deadline := time.Now().Add(readyTimeout)
	for {
		if done() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatal(w.t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (w *world) list(resource schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	list, err := w.objects.Resource(resource).Namespace(namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// onlyMachine returns the cluster's one Machine.
func (w *world) onlyMachine() unstructured.Unstructured {
	w.t.Helper()
	machines, err := w.list(machinesResource)
	must(w.t, err)
	if len(machines) != 1 {
		w.t.Fatalf("found %d Machines, want 1", len(machines))
	}
	return machines[0]
}

// creates returns how often the cloud created a machine.
func (w *world) creates() int {
	w.t.Helper()
	events, err := w.Lab.Events()
	must(w.t, err)
	n := 0
	for _, event := range events {
		if event.Action == "create" {
			n++
		}
	}
	return n
}

// namespacesAreComplete reports whether every namespace has the objects that the controller manager creates in it with
// a delay.
func (w *world) namespacesAreComplete() (bool, error) {
	namespaces, err := w.objects.Resource(namespacesResource).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for _, found := range namespaces.Items {
		for resource, name := range map[schema.GroupVersionResource]string{
			{Version: "v1", Resource: "serviceaccounts"}: "default",
			{Version: "v1", Resource: "configmaps"}:      "kube-root-ca.crt",
		} {
			if _, err := w.objects.Resource(resource).Namespace(found.GetName()).Get(w.t.Context(), name,
				metav1.GetOptions{}); err != nil {
				return false, err
			}
		}
	}
	return len(namespaces.Items) > 0, nil
}

// apiInventory lists all objects of all kinds except Events and Leases.
func (w *world) apiInventory() []string {
	w.t.Helper()
	return w.inventoryOf(w.Config)
}

// inventoryOf lists the objects of a cluster.
func (w *world) inventoryOf(config *rest.Config) []string {
	w.t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	must(w.t, err)
	objects, err := dynamic.NewForConfig(config)
	must(w.t, err)
	lists, err := client.ServerPreferredResources()
	must(w.t, err)
	var names []string
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		must(w.t, err)
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Name == "events" || resource.Name == "leases" {
				continue
			}
			found, err := objects.Resource(group.WithResource(resource.Name)).List(w.t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			must(w.t, err)
			for _, item := range found.Items {
				names = append(names, resource.Name+"."+group.Group+" "+item.GetNamespace()+"/"+item.GetName())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// testWriter writes progress to the test's log.
type testWriter struct{ t *testing.T }

// Write logs one line.
func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// replaceOnce replaces the only occurrence of old.
func replaceOnce(t *testing.T, text, old, with string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q occurs %d times in:\n%s", old, strings.Count(text, old), text)
	}
	return strings.Replace(text, old, with, 1)
}
