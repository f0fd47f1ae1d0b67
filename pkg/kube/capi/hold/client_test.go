package hold

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	return New(w.cache, Options{Live: w.cache.Client, Log: log, Requeue: func(controller string, r reconcile.Request) {
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
	conditions.Set(m, metav1.Condition{Type: clusterv1.MachineInfrastructureReadyCondition, Status: metav1.ConditionTrue,
		Reason: clusterv1.MachineInfrastructureReadyReason})
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

func TestClient_HoldsWhatMayWait(t *testing.T) {
	in(t, func(w *world) {
		w.machine()
		for _, message := range []string{"one", "two", "three"} {
			w.must("machine", notReady(message))
			if got := messageOf(w.get(w.hold), clusterv1.MachineReadyCondition); got != message {
				t.Errorf("the core reads message %q, want %q", got, message)
			}
		}
		w.wantWrites(0, "before the window ends")
		if m := w.get(w.live); m.Status.Phase != "" {
			t.Errorf("others read phase %s before it is written", m.Status.Phase)
		}
		time.Sleep(defaultWindow + time.Second)
		synctest.Wait()
		w.wantWrites(1, "after the window")
		m := w.get(w.live)
		if got := messageOf(m, clusterv1.MachineReadyCondition); got != "three" || m.Status.Phase != "Pending" {
			t.Errorf("stored: message %q and phase %q, want three and Pending", got, m.Status.Phase)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantWrites(0, "later")
		if !w.hold.isEmpty() {
			t.Error("the client remembers an object whose status is stored")
		}
	})
}

func TestClient_WritesUrgentChangesWithTheReconcile(t *testing.T) {
	in(t, func(w *world) {
		w.machine()
		w.must("machine", notReady("one"))
		w.must("machine", infrastructureReady)
		w.wantWrites(1, "an urgent change takes the held ones along")
		m := w.get(w.live)
		if !*m.Status.Initialization.InfrastructureProvisioned || m.Status.Phase != "Pending" {
			t.Errorf("stored status: %+v", m.Status)
		}
	})
}

// TestClient_OtherControllersAreWritten: Cluster API's other controllers change conditions of Machines, for example
// after a health check. These are written at once, and nothing that is held gets lost.
func TestClient_OtherControllersAreWritten(t *testing.T) {
	in(t, func(w *world) {
		w.machine()
		w.must("machine", notReady("one"))
		w.must("machinehealthcheck", func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition,
				Status: metav1.ConditionFalse, Reason: clusterv1.MachineHealthCheckUnhealthyNodeReason})
		})
		m := w.get(w.live)
		if !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) ||
			messageOf(m, clusterv1.MachineReadyCondition) != "one" {
			t.Errorf("stored conditions: %v", m.Status.Conditions)
		}
	})
}

// TestClient_PatchOfAnOlderVersionConflicts: a controller that read the Machine before something was held or written
// must read it again, as with the API server.
func TestClient_PatchOfAnOlderVersionConflicts(t *testing.T) {
	in(t, func(w *world) {
		w.machine()
		check := w.hold.For("machinehealthcheck")
		old := w.get(check)
		w.must("machine", notReady("one"))
		changed := old.DeepCopy()
		conditions.Set(changed, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition,
			Status: metav1.ConditionTrue, Reason: "Healthy"})
		err := check.Status().Patch(t.Context(), changed,
			client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
		if err == nil {
			t.Error("the patch of an older version is accepted")
		}
		if got := messageOf(w.get(w.live), clusterv1.MachineReadyCondition); got != "one" {
			t.Errorf("message %q, want one", got)
		}
	})
}

func TestClient_KeepsWhatOthersWrite(t *testing.T) {
	in(t, func(w *world) {
		w.machine()
		w.must("machine", notReady("one"))
		other := w.get(w.live)
		conditions.Set(other, metav1.Condition{Type: "PlanApplied", Status: metav1.ConditionTrue, Reason: "Applied"})
		if err := w.live.Status().Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		m := w.get(w.live)
		if !conditions.IsTrue(m, "PlanApplied") || messageOf(m, clusterv1.MachineReadyCondition) != "one" {
			t.Errorf("stored conditions: %v", m.Status.Conditions)
		}
	})
}

func TestClient_TriesAgainAfterAConflict(t *testing.T) {
	in(t, func(w *world) {
		w.cache.lag(w.machine())
		w.must("machine", notReady("one"))
		other := w.get(w.live)
		conditions.Set(other, metav1.Condition{Type: "PlanApplied", Status: metav1.ConditionTrue, Reason: "Applied"})
		if err := w.live.Status().Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		w.wantWrites(2, "a conflict and a success")
		m := w.get(w.live)
		if !conditions.IsTrue(m, "PlanApplied") || messageOf(m, clusterv1.MachineReadyCondition) != "one" {
			t.Errorf("stored conditions: %v", m.Status.Conditions)
		}
	})
}

// TestClient_ShowsItsWritesUntilTheCacheDoes: there is no time limit.
func TestClient_ShowsItsWritesUntilTheCacheDoes(t *testing.T) {
	in(t, func(w *world) {
		w.cache.lag(w.machine())
		w.must("machine", infrastructureReady)
		time.Sleep(time.Hour)
		if m := w.get(w.hold); m.Status.Initialization.InfrastructureProvisioned == nil {
			t.Error("the core reads an older status than it has written")
		}
		w.cache.catchUp()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !w.hold.isEmpty() {
			t.Error("the client remembers a status that the cache has")
		}
		w.wantWrites(1, "in all")
	})
}

func TestClient_HoldsNothingOfADeletedMachine(t *testing.T) {
	in(t, func(w *world) {
		m := w.machine()
		w.must("machine", notReady("one"))
		if err := w.live.Delete(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		w.must("machine", notReady("two"))
		if got := messageOf(w.get(w.live), clusterv1.MachineReadyCondition); got != "two" {
			t.Errorf("message %q, want two", got)
		}
	})
}

func TestClient_ForgetsAMachineThatIsGone(t *testing.T) {
	in(t, func(w *world) {
		old := w.machine()
		w.must("machine", notReady("of the old one"))
		gone := w.get(w.live)
		gone.Finalizers = nil
		if err := w.live.Update(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if err := w.live.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		if created := w.machine(); created.UID == old.UID {
			t.Fatal("the new machine has the UID of the old one")
		}
		if got := w.get(w.hold).Status; !cmp.Equal(got, clusterv1.MachineStatus{}) {
			t.Errorf("the new machine has the status of the old one: %+v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantWrites(0, "for the old machine")
		if !w.hold.isEmpty() || len(w.requeued) > 0 {
			t.Errorf("the client remembers the old machine, requeued: %v", w.requeued)
		}
	})
}

func TestClient_WritesNothingThatIsUndone(t *testing.T) {
	in(t, func(w *world) {
		w.machine()
		w.must("machine", func(m *clusterv1.Machine) { m.Status.Phase = "Pending" })
		w.must("machine", func(m *clusterv1.Machine) { m.Status.Phase = "" })
		time.Sleep(time.Minute)
		synctest.Wait()
		w.wantWrites(0, "for no change")
	})
}

func TestClient_FlushesAtTheEnd(t *testing.T) {
	in(t, func(w *world) {
		w.cache.lag(w.machine())
		w.must("machine", notReady("one"))
		if err := w.hold.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantWrites(1, "at the end")
		time.Sleep(time.Minute)
		w.wantWrites(0, "after the end")
		if got := messageOf(w.get(w.live), clusterv1.MachineReadyCondition); got != "one" {
			t.Errorf("message %q, want one", got)
		}
	})
}

// TestClient_KillLosesOnlyWhatIsComputedAgain: a new process has nothing held. Its first reconcile computes the same
// status from the same objects.
func TestClient_KillLosesOnlyWhatIsComputedAgain(t *testing.T) {
	in(t, func(w *world) {
		w.machine()
		w.must("machine", notReady("one"))
		w.api.CutAfter(agent, 0, func() {})
		time.Sleep(time.Minute)
		synctest.Wait()
		w.api.Mend(agent)
		if m := w.get(w.live); len(m.Status.Conditions) > 0 {
			t.Fatalf("the killed process has written %v", m.Status.Conditions)
		}
		w.hold = w.start()
		w.must("machine", notReady("one"))
		if err := w.hold.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := messageOf(w.get(w.live), clusterv1.MachineReadyCondition); got != "one" {
			t.Errorf("message %q, want one", got)
		}
	})
}

func TestClient_ReconcilesAgainWhatItCannotWrite(t *testing.T) {
	in(t, func(w *world) {
		w.machine()
		w.must("machine", notReady("one"))
		w.api.Intercept(func(r memkube.Request) error {
			if r.Subresource == "status" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "m1", errors.New("refused"))
			}
			return nil
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"machine fleet/m1"}, w.requeued); diff != "" {
			t.Errorf("requeued (-want +got):\n%s", diff)
		}
		if got := messageOf(w.get(w.hold), clusterv1.MachineReadyCondition); got != "" {
			t.Errorf("the core reads message %q, which is lost", got)
		}
	})
}

func TestClient_ShowsHeldStatusesInAllForms(t *testing.T) {
	in(t, func(w *world) {
		w.machine()
		w.must("machine", notReady("one"))
		ctx := t.Context()

		var typed clusterv1.MachineList
		if err := w.hold.List(ctx, &typed, client.MatchingLabels{"pool": "a"}); err != nil {
			t.Fatal(err)
		}
		var none clusterv1.MachineList
		if err := w.hold.List(ctx, &none, client.MatchingLabels{"pool": "b"}); err != nil {
			t.Fatal(err)
		}
		if len(none.Items) > 0 || len(typed.Items) != 1 || typed.Items[0].Status.Phase != "Pending" {
			t.Errorf("typed lists: %+v, and %d of another pool", typed.Items, len(none.Items))
		}
		loose := &unstructured.Unstructured{}
		loose.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
		looseList := &unstructured.UnstructuredList{}
		looseList.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
		partial := &metav1.PartialObjectMetadata{}
		partial.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
		for _, err := range []error{w.hold.Get(ctx, m1, loose), w.hold.List(ctx, looseList), w.hold.Get(ctx, m1, partial)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, item := range append(looseList.Items, *loose) {
			if phase, _, _ := unstructured.NestedString(item.Object, "status", "phase"); phase != "Pending" {
				t.Errorf("an unstructured read has phase %q", phase)
			}
		}
		annotated := w.get(w.hold)
		before := annotated.DeepCopy()
		annotated.Annotations = map[string]string{"a": "b"}
		if err := w.hold.Patch(ctx, annotated, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		if annotated.Status.Phase != "Pending" {
			t.Error("the answer to a write shows no held status")
		}
		changed := w.get(w.hold)
		changed.Status.Conditions[0].Message = "changed by a reader"
		if got := messageOf(w.get(w.hold), clusterv1.MachineReadyCondition); got != "one" {
			t.Errorf("a reader has changed what others read: %q", got)
		}
	})
}

func TestClient_WindowGrows(t *testing.T) {
	in(t, func(w *world) {
		grown := map[time.Duration]bool{}
		for i := range 400 {
			w.hold.objects[key{machines, types.NamespacedName{Name: string(rune(i))}}] = &held{}
			grown[w.hold.window()] = true
		}
		longest := time.Duration(0)
		for window := range maps.Keys(grown) {
			longest = max(longest, window)
		}
		if len(grown) < 3 || longest != defaultMaxWindow {
			t.Errorf("windows %v, the longest is %s", len(grown), longest)
		}
	})
}
