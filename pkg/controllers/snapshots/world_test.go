package snapshots_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/snapshots"
	"github.com/drover-io/drover/pkg/crds"
	lists "github.com/drover-io/drover/pkg/decide/snapshots"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/proxy"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	fleet    = "fleet-default"
	instance = "instance-1"
	agent    = "drover/test"
	inside   = "drover" // in the cluster itself
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// world is a management cluster with the running controller, and a cluster with server n1 and a list of snapshots.
type world struct {
	*testing.T
	api, cluster *memkube.Server
	user         *clients.Clients
	down         kubernetes.Interface
	// away means that the cluster does not answer; unknown means that it has no connection.
	away, unknown atomic.Bool
	log           *bytes.Buffer
	stop          func()
	// cut is closed when the process is killed; nil if the test does not kill it.
	cut chan struct{}
}

// tell runs a test in virtual time.
func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	inWorld(t, f)
}

// inWorld is tell for a test that runs several times in sequence.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, err := clients.NewScheme()
		must(t, err)
		definitions, err := crds.All()
		must(t, err)
		w := &world{T: t, log: &bytes.Buffer{}}
		w.api = memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions, Namespaces: []string{fleet},
			Permit: rights.Permit(t, agent)})
		w.cluster = memkube.New(memkube.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{listKind()}})
		w.down, err = kubernetes.NewForConfig(w.cluster.Config(inside))
		must(t, err)
		must(t, w.api.Add(
			&provv1.Cluster{
				TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
				ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo",
					Annotations: map[string]string{rkev1.InstanceAnnotation: instance}},
			},
			&clusterv1.Cluster{
				TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster"},
				ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo"},
			},
			&rkev1.RKEControlPlane{
				TypeMeta:   metav1.TypeMeta{APIVersion: "rke.cattle.io/v1", Kind: "RKEControlPlane"},
				ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo"},
				Spec:       rkev1.RKEControlPlaneSpec{ClusterName: "demo"},
				Status:     rkev1.RKEControlPlaneStatus{Initialized: true},
			},
		))
		w.addMachine("server-a", "n1")
		w.user, err = clients.New(w.api.Config("ignored"), clients.Options{Version: "user", WithoutDynamic: true})
		must(t, err)
		w.start()
		defer func() {
			w.stop()
			w.user.Stop()
		}()
		f(w)
	})
}

// listKind returns the CRD etcdsnapshotfiles.k3s.cattle.io.
func listKind() *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "etcdsnapshotfiles.k3s.cattle.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "k3s.cattle.io", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "etcdsnapshotfiles",
				Singular: "etcdsnapshotfile", Kind: "ETCDSnapshotFile", ListKind: "ETCDSnapshotFileList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
						XPreserveUnknownFields: &preserve},
				}}},
		},
	}
}

// Client implements snapshots.Downstream.
func (w *world) Client(context.Context, types.NamespacedName) (kubernetes.Interface, error) {
	switch {
	case w.unknown.Load():
		return nil, proxy.ErrNotAvailable
	case w.away.Load():
		return nil, errors.New("no route to the cluster")
	}
	return w.down, nil
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test", WithoutDynamic: true})
	must(w.T, err)
	log := logrus.New()
	log.SetOutput(w.log)
	must(w.T, snapshots.Register(c.HandlerContext(), snapshots.Deps{
		ControlPlanes: c.RKE.RKEControlPlane(), Snapshots: c.RKE.ETCDSnapshot(), Clusters: c.Provisioning.Cluster(),
		CAPIClusters: c.CAPI.Cluster(),
		Machines:     c.CAPI.Machine(), Downstream: w, InstanceID: instance, Log: log,
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

func (w *world) addMachine(name, node string) {
	w.Helper()
	must(w.T, w.api.Add(&clusterv1.Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: name},
		Spec:       clusterv1.MachineSpec{ClusterName: "demo"},
		Status:     clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: node}},
	}))
}

// take adds a snapshot to the cluster's list.
func (w *world) take(name, node string) {
	w.Helper()
	entry := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "k3s.cattle.io/v1", "kind": "ETCDSnapshotFile",
		"metadata": map[string]any{"name": "local-" + name},
		"spec": map[string]any{"snapshotName": name, "nodeName": node,
			"location": "file:///var/lib/rancher/k3s/server/db/snapshots/" + name},
		"status": map[string]any{"size": "4096", "creationTime": time.Now().UTC().Format(time.RFC3339),
			"readyToUse": true},
	}}
	must(w.T, w.cluster.Add(entry))
}

// drop removes a snapshot from the cluster's list.
func (w *world) drop(name string) {
	w.Helper()
	must(w.T, w.down.Discovery().RESTClient().Delete().AbsPath(lists.ListPath, "local-"+name).Do(w.Context()).Error())
}

// plane applies f to the control plane and writes it.
func (w *world) plane(f func(*rkev1.RKEControlPlane)) {
	w.Helper()
	found, err := w.user.RKE.RKEControlPlane().Get(fleet, "demo", metav1.GetOptions{})
	must(w.T, err)
	f(found)
	status := found.Status
	found, err = w.user.RKE.RKEControlPlane().Update(found)
	must(w.T, err)
	found.Status = status
	_, err = w.user.RKE.RKEControlPlane().UpdateStatus(found)
	must(w.T, err)
}

// known returns the files of the existing ETCDSnapshots.
func (w *world) known() []string {
	w.Helper()
	list, err := w.user.RKE.ETCDSnapshot().List(fleet, metav1.ListOptions{})
	must(w.T, err)
	files := []string{}
	for i := range list.Items {
		files = append(files, list.Items[i].SnapshotFile.Name)
	}
	return files
}

// asked returns how often the cluster's list was read.
func (w *world) asked() int {
	n := 0
	for _, entry := range w.cluster.Log() {
		if entry.Resource == "etcdsnapshotfiles.k3s.cattle.io" && entry.Verb == "list" {
			n++
		}
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
