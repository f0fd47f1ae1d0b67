package hold

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
)

// step is one event in the life of a Machine.
type step struct {
	who   string // machine, machinehealthcheck, other, or what happens to the cache and the clock
	field string
	value string
	wait  time.Duration
}

// Fields that each writer changes. Both the core and another writer change shared.
const shared = "Ready"

var fieldsOf = map[string][]string{
	"machine":            {"phase", "deprecated Ready", "UpToDate", "Available", "InfrastructureReady", shared},
	"machinehealthcheck": {"HealthCheckSucceeded", "OwnerRemediated"},
	"other":              {"failureDomain", "PlanApplied", shared},
}

func drawSteps(t *rapid.T) []step {
	one := rapid.Custom(func(t *rapid.T) step {
		s := step{who: rapid.SampledFrom([]string{"machine", "machine", "machine", "machine", "machinehealthcheck",
			"other", "lag", "catch up", "wait"}).Draw(t, "who")}
		if names := fieldsOf[s.who]; names != nil {
			s.field = rapid.SampledFrom(names).Draw(t, "field")
			s.value = rapid.SampledFrom([]string{"", "True", "False", "Unknown"}).Draw(t, "value")
			if s.who == "other" && s.value == "" {
				s.value = "True" // another writer does not remove what it does not see
			}
		}
		s.wait = time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second
		return s
	})
	return rapid.SliceOfN(one, 1, 30).Draw(t, "steps")
}

// change sets the field to a value that no other step sets. An empty value removes a condition.
func (s step) change(m *clusterv1.Machine, number int) {
	unique := fmt.Sprintf("step %d", number)
	switch s.field {
	case "phase":
		m.Status.Phase = map[string]string{"": "Pending", "True": "Running", "False": "Provisioning",
			"Unknown": "Provisioned"}[s.value]
	case "failureDomain":
		m.Status.FailureDomain = unique
	case "deprecated Ready":
		v1beta1conditions.MarkTrue(m, clusterv1.ReadyV1Beta1Condition)
	default:
		if s.value == "" {
			conditions.Delete(m, s.field)
			return
		}
		reason := map[string]string{"True": "Ready", "False": "NotReady", "Unknown": "ReadyUnknown"}[s.value]
		conditions.Set(m, metav1.Condition{Type: s.field, Status: metav1.ConditionStatus(s.value), Reason: reason,
			Message: unique})
	}
}

// play plays the steps. It returns the stored Machine, and the one without a client that holds statuses.
func (w *world) play(steps []step) (stored, model *clusterv1.Machine) {
	w.t.Helper()
	model = w.machine()
	for i, s := range steps {
		switch s.who {
		case "lag":
			w.cache.lag(w.get(w.live))
		case "catch up":
			w.cache.catchUp()
		case "wait":
			time.Sleep(s.wait)
			synctest.Wait()
		case "other":
			other := w.get(w.live)
			s.change(other, i)
			if err := w.live.Status().Update(w.t.Context(), other); err != nil {
				w.t.Fatal(err)
			}
			s.change(model, i)
			if s.field == shared {
				w.cache.catchUp() // the core decides on what it sees
			}
		default:
			w.again(s, i)
			s.change(model, i)
			w.compareShown(model, i)
		}
	}
	w.cache.catchUp()
	if err := w.hold.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return w.get(w.live), model
}

// again reconciles until there is no conflict. That ends when the cache has caught up.
func (w *world) again(s step, number int) {
	w.t.Helper()
	for range 3 {
		if err := w.reconcile(s.who, func(m *clusterv1.Machine) { s.change(m, number) }); err == nil {
			return
		}
		w.cache.catchUp()
	}
	w.t.Fatalf("step %d never succeeds", number)
}

// compareShown: the core reads its own status, whatever the cache has.
func (w *world) compareShown(model *clusterv1.Machine, number int) {
	w.t.Helper()
	shown := w.get(w.hold)
	for _, name := range append(fieldsOf["machine"][2:], fieldsOf["machinehealthcheck"]...) {
		if got, want := messageOf(shown, name), messageOf(model, name); got != want {
			w.wrong = append(w.wrong, fmt.Sprintf("step %d: the core reads %s %q, want %q", number, name, got, want))
		}
	}
	if shown.Status.Phase != model.Status.Phase {
		w.wrong = append(w.wrong, fmt.Sprintf("step %d: the core reads phase %s, want %s", number, shown.Status.Phase,
			model.Status.Phase))
	}
}

// compared leaves out the times of conditions.
func compared(m *clusterv1.Machine) map[string]string {
	out := map[string]string{"phase": m.Status.Phase, "failureDomain": m.Status.FailureDomain}
	for _, c := range m.Status.Conditions {
		out[c.Type] = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
	}
	for _, c := range m.GetV1Beta1Conditions() {
		out["deprecated "+string(c.Type)] = string(c.Status)
	}
	return out
}

// TestClient_EndsAsWithoutIt: after any sequence of reconciles, writes of others, lags of the cache and flushes, the
// status is as if nothing had been held.
func TestClient_EndsAsWithoutIt(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps, diff := drawSteps(r), ""
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			stored, model := w.play(steps)
			diff, wrong = cmp.Diff(compared(model), compared(stored)), w.wrong
		})
		if diff != "" || len(wrong) > 0 {
			r.Fatalf("status (-without +with the client):\n%s%s", diff, strings.Join(wrong, "\n"))
		}
	})
}
