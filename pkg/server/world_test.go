package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/reach/proxy"
	"github.com/drover-io/drover/pkg/testkit/disruptions"
	"github.com/drover-io/drover/pkg/testkit/fakeagent"
	"github.com/drover-io/drover/pkg/testkit/fakecapi"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const (
	fleet = "fleet-default"
	demo  = "demo"
	// ours is the user agent prefix of all of Drover's writes in the log.
	ours = "drover/test"
)

// world is a management cluster in memory, in virtual time. Fakes play Cluster API and all machines. Drover itself is
// real, and a story starts and stops it.
type world struct {
	*testing.T
	api   *memkube.Server
	user  *clients.Clients
	live  dynamic.Interface
	hosts *fakeagent.World
	lead  func() // stops the running Drover
	// instance is Drover's, "test" when it is empty.
	instance string
	// agents: clusters get agents and are reached through their tunnels. No fake plays the agents.
	agents  bool
	players sync.WaitGroup
	// stopHosts ends the agents of the hosts, but not the hosts.
	stopHosts func()
	// registry is the system default registry of Drover.
	registry string
	// metrics are those of all processes of a story.
	metrics *prometheus.Registry
	// tracer receives traces of machines, if it is set.
	tracer trace.TracerProvider

	mu     sync.Mutex
	served map[string]downstream // APIs of clusters, by the address of the machine that serves them
}

// downstream is the API of a cluster.
type downstream struct {
	api    *memkube.Server
	client kubernetes.Interface
}

// tell runs a story and cleans up after it.
func tell(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, api: newAPI(t), served: map[string]downstream{},
			metrics: prometheus.NewRegistry()}
		var err error
		w.user, err = clients.New(w.api.Config("user"), clients.Options{Version: "user"})
		check(t, err)
		user := w.api.Config("user")
		w.live, err = dynamic.NewForConfig(user)
		check(t, err)
		w.hosts, err = fakeagent.New(fakeagent.Options{
			Config: w.api.Config("ignored"), API: func() http.Handler {
				return memkube.New(
					memkube.Options{})
			}, Serve: w.serve,
			Boot: 2 * time.Second, Install: 3 * time.Second, Log: w.note,
		})
		check(t, err)
		core, err := fakecapi.New(fakecapi.Options{API: w.api, Log: w.note,
			Downstream: func(namespace, name string) kubernetes.Interface {
				client, err := w.Client(t.Context(), types.NamespacedName{Namespace: namespace, Name: name})
				if err != nil {
					return nil
				}
				return client
			}})
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		players := &w.players
		players.Go(func() { core.Run(ctx) })
		players.Go(func() { w.distribution(ctx) })
		hosts, ended := w.hosts, make(chan struct{})
		hostsCtx, stopHosts := context.WithCancel(ctx)
		w.stopHosts = func() { stopHosts(); <-ended }
		players.Go(func() { defer close(ended); check(t, hosts.Run(hostsCtx)) })
		defer func() {
			w.stop()
			cancel()
			players.Wait()
			w.user.Stop()
			disruptions.Check(t, w.metrics)
			time.Sleep(time.Hour) // timers of caches that have ended
		}()
		f(w)
	})
}

func (w *world) note(format string, args ...any) {
	if testing.Verbose() {
		w.Logf(format, args...)
	}
}

// serve starts the API of a cluster at an address.
func (w *world) serve(address string, api http.Handler, _ fakeagent.Identity) (func(), error) {
	served := api.(interface{ Unwrap() http.Handler }).Unwrap().(*memkube.Server)
	client, err := kubernetes.NewForConfig(served.Config("client"))
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served[address] = downstream{served, client}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.served, address)
	}, nil
}

// distribution plays what K3s does in a cluster whose nodes have etcd: it removes members, and the machine then stays
// silent.
func (w *world) distribution(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		w.mu.Lock()
		apis := slices.Collect(maps.Values(w.served))
		w.mu.Unlock()
		for _, found := range apis {
			w.removeMembers(found.api)
		}
	}
}

func (w *world) removeMembers(api *memkube.Server) {
	var leaving []*unstructured.Unstructured
	for _, node := range api.Objects(corev1.SchemeGroupVersion.WithKind("Node")) {
		annotations := node.GetAnnotations()
		if annotations[rkev1.RemoveK3sEtcdMemberAnnotation] == "true" &&
			annotations[rkev1.RemovedK3sEtcdMemberAnnotation] == "" {
			leaving = append(leaving, node)
		}
	}
	if len(leaving) > 1 {
		w.Errorf("%d members of etcd were asked to leave at once", len(leaving))
	}
	for _, node := range leaving {
		annotations := node.GetAnnotations()
		annotations[rkev1.RemovedK3sEtcdMemberAnnotation] = node.GetName()
		node.SetAnnotations(annotations)
		check(w.T, api.Add(node))
	}
}

// Client reaches a cluster with the kubeconfig that Drover wrote, without a socket.
func (w *world) Client(_ context.Context, cluster types.NamespacedName) (kubernetes.Interface, error) {
	secret, err := w.kubeconfig(cluster)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		return nil, err
	}
	address := strings.TrimSuffix(strings.TrimPrefix(config.Host, "https://"), ":6443")
	w.mu.Lock()
	defer w.mu.Unlock()
	if found, ok := w.served[address]; ok {
		return found.client, nil
	}
	return nil, errors.New("connection refused")
}

// Version changes with the kubeconfig.
func (w *world) Version(cluster types.NamespacedName) (string, error) {
	secret, err := w.kubeconfig(cluster)
	if errors.Is(err, proxy.ErrNotAvailable) {
		return "", nil
	}
	return secret.ResourceVersion, err
}

// Forget does nothing, because nothing is cached.
func (w *world) Forget(types.NamespacedName) {}

func (w *world) kubeconfig(cluster types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace,
		Name: naming.Kubeconfig(cluster.Name)}}
	found, err := w.api.Get(secret)
	if err == nil && !found {
		err = proxy.ErrNotAvailable
	}
	return secret, err
}

// start starts Drover, as a new process would.
func (w *world) start() {
	w.Helper()
	opts := Options{
		RESTConfig: w.api.Config("ignored"), InstanceID: cmp.Or(w.instance, "test"), Version: "test",
		StartTimeout: 10 * time.Second,
		Settings:     Settings{ServerURL: "https://drover.example.com", SystemDefaultRegistry: w.registry},
		Downstream:   w, Registerer: w.metrics,
		TracerProvider: w.tracer,
	}
	if w.agents {
		opts.Downstream = nil
	}
	s, err := New(opts)
	check(w.T, err)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Start(ctx); err != nil {
			w.note("Drover ended: %v", err)
		}
	}()
	w.lead = func() { cancel(); <-ended; s.every.Stop() }
}

func (w *world) stop() {
	if w.lead != nil {
		w.lead()
		w.lead = nil
	}
}

// pool returns a machine pool with its own machine config. roles are some of the letters e, c, w.
func (w *world) pool(name, roles string, quantity int32) provv1.RKEMachinePool {
	w.Helper()
	config := &unstructured.Unstructured{Object: map[string]any{"region": "fra1", "size": "s-1vcpu-1gb"}}
	config.SetAPIVersion("rke-machine-config.cattle.io/v1")
	config.SetKind("DigitaloceanConfig")
	config.SetName(demo + "-" + name)
	configs := w.live.Resource(config.GroupVersionKind().GroupVersion().WithResource("digitaloceanconfigs")).Namespace(
		fleet)
	if _, err := configs.Create(w.Context(), config, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
	return provv1.RKEMachinePool{
		Name: name, Quantity: &quantity, NodeConfig: &corev1.ObjectReference{Kind: "DigitaloceanConfig",
			Name: config.GetName()},
		EtcdRole: strings.Contains(roles, "e"), ControlPlaneRole: strings.Contains(roles, "c"),
		WorkerRole: strings.Contains(roles, "w"),
	}
}

// apply creates the cluster, as its user would, once the kinds of machine configs exist.
func (w *world) apply(version string, pools func() []provv1.RKEMachinePool) {
	w.Helper()
	w.until("the kinds of machines", time.Minute, func() string {
		return w.missing("digitaloceanconfigs.rke-machine-config.cattle.io",
			"digitaloceanmachinetemplates.rke-machine.cattle.io")
	})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cattle-global-data", Name: "cc-demo",
			Annotations: map[string]string{rkev1.AuthorizedObjectAnnotation: fleet + "/" + demo}},
		Data: map[string][]byte{"digitaloceancredentialConfig-accessToken": []byte("top-secret")},
	}
	if found, err := w.api.Get(secret.DeepCopy()); err != nil || !found {
		_, err := w.user.Core.Secret().Create(secret)
		check(w.T, err)
	}
	_, err := w.user.Provisioning.Cluster().Create(&provv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: demo},
		Spec: provv1.ClusterSpec{
			KubernetesVersion: version, CloudCredentialSecretName: "cattle-global-data:cc-demo",
			RKEConfig: &provv1.RKEConfig{MachinePools: pools()},
		},
	})
	check(w.T, err)
}

func (w *world) missing(crds ...string) string {
	for _, name := range crds {
		if _, err := w.user.CRDs.CustomResourceDefinition().Get(name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
	}
	return ""
}

// edit changes the cluster, as its user would.
func (w *world) edit(change func(*provv1.Cluster)) {
	w.Helper()
	cluster, err := w.user.Provisioning.Cluster().Get(fleet, demo, metav1.GetOptions{})
	check(w.T, err)
	change(cluster)
	_, err = w.user.Provisioning.Cluster().Update(cluster)
	check(w.T, err)
}

// until waits until what returns "".
func (w *world) until(name string, limit time.Duration, what func() string) {
	w.Helper()
	deadline, left := time.Now().Add(limit), ""
	for time.Now().Before(deadline) {
		synctest.Wait()
		if left = what(); left == "" {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	w.Fatalf("waited %s for %s: %s\n%s", limit, name, left, w.picture())
}

// ready returns why the cluster is not ready with that many machines, all of them nodes. It returns "" when it is
// ready.
func (w *world) ready(machines int) func() string {
	return func() string {
		cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: demo}}
		if _, err := w.api.Get(cluster); err != nil {
			return err.Error()
		}
		if !cluster.Status.Ready {
			return "status.ready is false"
		}
		for _, c := range cluster.Status.Conditions {
			if (c.Type == provv1.ConditionReady || c.Type == provv1.ConditionUpdated ||
				c.Type == provv1.ConditionProvisioned) && c.Status != rkev1.ConditionTrue {
				return c.Type + ": " + c.Message
			}
		}
		nodes := 0
		for _, m := range w.objects("Machine") {
			if name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name"); name != "" {
				nodes++
			}
		}
		if all := len(w.objects("Machine")); nodes != machines || all != machines {
			return fmt.Sprintf("%d of %d machines are nodes, want %d", nodes, all, machines)
		}
		return ""
	}
}

func (w *world) objects(kind string) []*unstructured.Unstructured {
	return w.api.Objects(clusterAPI.WithKind(kind))
}

// picture describes the objects, for a failing test.
func (w *world) picture() string {
	var out strings.Builder
	for _, gvk := range shown() {
		for _, u := range w.api.Objects(gvk) {
			fmt.Fprintf(&out, "%s %s/%s deleting=%v finalizers=%v\n", u.GetKind(), u.GetNamespace(), u.GetName(),
				u.GetDeletionTimestamp() != nil, u.GetFinalizers())
			list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			for _, entry := range list {
				if c, ok := entry.(map[string]any); ok && (c["status"] != "True" || c["message"] != nil) {
					fmt.Fprintf(&out, "    %v=%v %v: %v\n", c["type"], c["status"], c["reason"], c["message"])
				}
			}
		}
	}
	return out.String()
}
