package clustersync_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/clustersync"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/observe/events"
	"github.com/drover-io/drover/pkg/reach/tunnel"
	"github.com/drover-io/drover/pkg/testkit/memkube"
	"github.com/drover-io/drover/pkg/testkit/rights"
)

const (
	id       = "c-m-12345678"
	instance = "instance-1"
	fleet    = "fleet-default"
	system   = "kube-system"
	agent    = "drover/test"
	inside   = "drover" // in the cluster
)

func TestMain(m *testing.M) {
	memkube.VirtualTime()
	m.Run()
}

// world is a management cluster with the running controller, and a cluster with an agent.
type world struct {
	*testing.T
	api, cluster *memkube.Server
	user, admin  kubernetes.Interface
	log          *bytes.Buffer
	stop         func()
	// cut is closed when the process is killed; nil if the test does not kill it.
	cut chan struct{}

	mu        sync.Mutex
	connected bool
	listeners []func(string)
	told      []events.Event
}

// tell runs a test in virtual time, with a cluster whose agent is not connected yet.
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
		w.api = memkube.New(memkube.Options{Scheme: scheme, CRDs: definitions, Namespaces: []string{fleet, "other"},
			Permit: rights.Permit(t, agent)})
		w.cluster = memkube.New(memkube.Options{Namespaces: []string{fleet}})
		must(t, w.api.Add(
			&provv1.Cluster{
				TypeMeta: metav1.TypeMeta{APIVersion: "provisioning.cattle.io/v1", Kind: "Cluster"},
				ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "demo",
					Annotations: map[string]string{rkev1.InstanceAnnotation: instance}},
				Status: provv1.ClusterStatus{ClusterName: id},
			},
			&mgmtv3.Cluster{
				TypeMeta:   metav1.TypeMeta{APIVersion: "management.cattle.io/v3", Kind: "Cluster"},
				ObjectMeta: metav1.ObjectMeta{Name: id},
			},
		))
		w.user, err = kubernetes.NewForConfig(w.api.Config("user"))
		must(t, err)
		w.admin, err = kubernetes.NewForConfig(w.cluster.Config("administrator"))
		must(t, err)
		w.start()
		defer func() { w.stop() }()
		f(w)
	})
}

// start runs the controller as a new process would.
func (w *world) start() {
	w.Helper()
	w.mu.Lock()
	w.listeners = nil
	w.mu.Unlock()
	c, err := clients.New(w.api.Config("ignored"), clients.Options{Version: "test", WithoutDynamic: true,
		SecretBytes: 1024})
	must(w.T, err)
	log := logrus.New()
	log.SetOutput(w.log)
	must(w.T, clustersync.Register(c.HandlerContext(), clustersync.Deps{
		Clusters: c.Provisioning.Cluster(), ManagementClusters: c.Management.Cluster(), Secrets: c.Core.Secret(),
		ConfigMaps: c.Core.ConfigMap(), Downstream: w, Tunnel: w, InstanceID: instance, Log: log,
		Announce: func(event events.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, event)
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
}

// Client implements proxy.ClientGetter.
func (w *world) Client(context.Context, types.NamespacedName) (kubernetes.Interface, error) {
	if !w.Connected(id) {
		return nil, tunnel.ErrNotConnected
	}
	return kubernetes.NewForConfig(w.cluster.Config(inside))
}

// Connected implements clustersync.Tunnel.
func (w *world) Connected(string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.connected
}

// Subscribe implements clustersync.Tunnel.
func (w *world) Subscribe(_ context.Context, listener func(string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners = append(w.listeners, listener)
}

// connect connects or disconnects the agent.
func (w *world) connect(connected bool) {
	w.mu.Lock()
	w.connected = connected
	listeners := slices.Clone(w.listeners)
	w.mu.Unlock()
	for _, listener := range listeners {
		listener(id)
	}
}

// elapse lets time d pass. If the controller was killed meanwhile, elapse restarts it and lets d pass again.
func (w *world) elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	select {
	case <-w.cut:
		w.cut = nil // kill once
		w.stop()
		w.cluster.Mend(inside)
		w.start()
		w.elapse(d)
	default:
	}
}

// pass is enough time for a visit.
func (w *world) pass() { w.elapse(5 * time.Second) }

func (w *world) add(objects ...runtime.Object) {
	w.Helper()
	must(w.T, w.api.Add(objects...))
	w.pass()
}

// announced returns the messages of Events, and forgets them.
func (w *world) announced() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, event := range w.told {
		out = append(out, event.Object.Kind+" "+event.Object.Name+": "+event.Message)
	}
	w.told = nil
	return out
}

// quiet fails if the controller writes anything within d.
func (w *world) quiet(d time.Duration) {
	w.Helper()
	w.api.ResetLog()
	w.cluster.ResetLog()
	w.elapse(d)
	if writes := append(w.api.Writes(agent), w.cluster.Writes(inside)...); len(writes) > 0 {
		w.Errorf("writes in %s without changes: %v", d, writes)
	}
}

// copied returns a Secret in the cluster, nil if there is none.
func (w *world) copied(namespace, name string) *corev1.Secret {
	w.Helper()
	found := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	exists, err := w.cluster.Get(found)
	must(w.T, err)
	if !exists {
		return nil
	}
	return found
}

func (w *world) copiedConfigMap(namespace, name string) *corev1.ConfigMap {
	w.Helper()
	found := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	exists, err := w.cluster.Get(found)
	must(w.T, err)
	if !exists {
		return nil
	}
	return found
}

// edit changes a Secret in the management cluster.
func (w *world) edit(name string, change func(*corev1.Secret)) {
	w.Helper()
	found, err := w.user.CoreV1().Secrets(fleet).Get(w.Context(), name, metav1.GetOptions{})
	must(w.T, err)
	change(found)
	_, err = w.user.CoreV1().Secrets(fleet).Update(w.Context(), found, metav1.UpdateOptions{})
	must(w.T, err)
	w.pass()
}

// editCopy changes a Secret in the cluster.
func (w *world) editCopy(namespace, name string, change func(*corev1.Secret)) {
	w.Helper()
	found, err := w.admin.CoreV1().Secrets(namespace).Get(w.Context(), name, metav1.GetOptions{})
	must(w.T, err)
	change(found)
	_, err = w.admin.CoreV1().Secrets(namespace).Update(w.Context(), found, metav1.UpdateOptions{})
	must(w.T, err)
}

// source returns a Secret that cluster demo gets in kube-system. More annotations are pairs of keys and values.
func source(name string, annotations ...string) *corev1.Secret {
	secret := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: name, Annotations: map[string]string{
			provv1.SyncAnnotation: "true", provv1.SyncTargetNamespaceAnnotation: system,
			rkev1.AuthorizedObjectAnnotation: "other, demo",
		}},
		Type: corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{"username": []byte("of {{clusterId}}"), "password": []byte("hunter2hunter2")},
	}
	for i := 0; i < len(annotations); i += 2 {
		secret.Annotations[annotations[i]] = annotations[i+1]
	}
	return secret
}

func sourceConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: name, Annotations: map[string]string{
			provv1.SyncBootstrapAnnotation: "true", rkev1.AuthorizedObjectAnnotation: fleet + "/*",
		}},
		Data:       map[string]string{"config": "id={{clusterId}}"},
		BinaryData: map[string][]byte{"binary": []byte("{{clusterId}}")},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
