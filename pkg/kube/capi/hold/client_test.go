package hold

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

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
		if err := w.hold.Flush(w.t.Context()); err != nil {
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
		if err := w.hold.Flush(w.t.Context()); err != nil {
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
		for _, err := range []error{w.hold.Get(ctx, m1, loose), w.hold.List(ctx, looseList),
			w.hold.Get(ctx, m1, partial)} {
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

// TestClient_WakesWhomTheEventWouldWake: Cluster API ends the reconcile that sets Paused, and goes on with the event of
// that write.
func TestClient_WakesWhomTheEventWouldWake(t *testing.T) {
	in(t, func(w *world) {
		w.machine()
		w.must("machine", func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse,
				Reason: clusterv1.NotPausedReason})
		})
		w.must("machine", notReady("one"))
		if diff := cmp.Diff([]string{"machine fleet/m1"}, w.woken); diff != "" {
			t.Errorf("woken (-want +got):\n%s", diff)
		}
		w.wantWrites(0, "before the window ends")
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
