package hold

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

const agent = "core"

// world is an API server, a cache of it that may lag, and the client over it.
type world struct {
	t        testing.TB
	api      *memkube.Server
	live     client.Client // another writer
	cache    *cache
	hold     *Client
	requeued []string
	woken    []string
	wrong    []string // what a rapid test found
}

func newWorld(t testing.TB) *world {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, api: memkube.New(memkube.Options{Scheme: scheme, Namespaces: []string{"fleet"}})}
	connect := func(agent string) client.Client {
		c, err := client.New(w.api.Config(agent), client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	w.live = connect("other")
	w.cache = &cache{Client: connect(agent), old: map[types.NamespacedName]client.Object{}}
	w.hold = w.start()
	return w
}

// start returns the client of a new process.
func (w *world) start() *Client {
	log := logrus.New()
	log.SetOutput(w.t.Output())
	return New(w.cache, Options{Live: w.cache.Client, Log: log,
		Wake: func(controller string, r reconcile.Request) { w.woken = append(w.woken, controller+" "+r.String()) },
		Requeue: func(controller string, r reconcile.Request) {
			w.requeued = append(w.requeued, controller+" "+r.String())
		}})
}

// cache is a client whose reads may show old versions.
type cache struct {
	client.Client
	mu  sync.Mutex
	old map[types.NamespacedName]client.Object
}

// lag keeps showing the present version of an object.
func (c *cache) lag(obj client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old[client.ObjectKeyFromObject(obj)] = obj.DeepCopyObject().(client.Object)
}

// catchUp shows the newest versions.
func (c *cache) catchUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.old)
}

func (c *cache) Get(ctx context.Context, name client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.mu.Lock()
	old := c.old[name]
	c.mu.Unlock()
	if machine, ok := obj.(*clusterv1.Machine); ok && old != nil {
		old.(*clusterv1.Machine).DeepCopyInto(machine)
		return nil
	}
	return c.Client.Get(ctx, name, obj, opts...)
}

var m1 = types.NamespacedName{Namespace: "fleet", Name: "m1"}

func (w *world) machine() *clusterv1.Machine {
	w.t.Helper()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m1.Namespace, Name: m1.Name,
		Labels: map[string]string{"pool": "a"}, Finalizers: []string{"test.example/hold"}},
		Spec: clusterv1.MachineSpec{ClusterName: "demo"}}
	if err := w.live.Create(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
	w.api.ResetLog()
	return m
}

// get reads the machine with a client.
func (w *world) get(c client.Client) *clusterv1.Machine {
	w.t.Helper()
	m := &clusterv1.Machine{}
	if err := c.Get(context.Background(), m1, m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// reconcile changes the machine as Cluster API's controllers do, with their patch helper.
func (w *world) reconcile(controller string, change func(m *clusterv1.Machine)) error {
	w.t.Helper()
	c := w.hold.For(controller)
	m := w.get(c)
	helper, err := patch.NewHelper(m, c)
	if err != nil {
		w.t.Fatal(err)
	}
	change(m)
	err = helper.Patch(context.Background(), m, patch.WithOwnedConditions{Conditions: []string{
		clusterv1.MachineReadyCondition, clusterv1.MachineInfrastructureReadyCondition}})
	w.hold.Finished(controller, reconcile.Request{NamespacedName: m1})
	return err
}

func (w *world) must(controller string, change func(m *clusterv1.Machine)) {
	w.t.Helper()
	if err := w.reconcile(controller, change); err != nil {
		w.t.Fatal(err)
	}
}

// writes returns the number of writes of the core since the last call.
func (w *world) writes() int {
	n := len(w.api.Writes(agent))
	w.api.ResetLog()
	return n
}

func (w *world) wantWrites(n int, when string) {
	w.t.Helper()
	if got := w.writes(); got != n {
		w.t.Errorf("%s: %d writes, want %d", when, got, n)
	}
}

func notReady(message string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineNotReadyReason, Message: message})
		m.Status.Phase = string(clusterv1.MachinePhasePending)
	}
}

func infrastructureReady(m *clusterv1.Machine) {
	m.Status.Initialization.InfrastructureProvisioned = new(true)
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineInfrastructureReadyCondition,
		Status: metav1.ConditionTrue, Reason: clusterv1.MachineInfrastructureReadyReason})
}

func messageOf(m *clusterv1.Machine, kind string) string {
	if c := conditions.Get(m, kind); c != nil {
		return c.Message
	}
	return ""
}

// in runs a test with a clock of its own.
func in(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}
