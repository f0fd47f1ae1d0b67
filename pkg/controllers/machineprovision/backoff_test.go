package machineprovision

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/machinejob"
)

func TestBackoff_CountsFailuresOfAPoolAndForgetsThemForAnotherTemplate(t *testing.T) {
	machine := func(uid, pool, template string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		obj.SetNamespace("ns")
		obj.SetUID(types.UID(uid))
		obj.SetLabels(map[string]string{clusterv1.MachineDeploymentNameLabel: pool})
		obj.SetAnnotations(map[string]string{clusterv1.TemplateClonedFromNameAnnotation: template})
		return obj
	}
	var failed, made machinejob.Decision
	failed.Status.FailureReason = rkev1.ReasonCreateError
	made.Status.Conditions = []rkev1.GenericCondition{{Type: rkev1.ConditionCreateJob, Status: rkev1.ConditionTrue}}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	expect := func(moment string, obj *unstructured.Unstructured, b *backoff, count int, last time.Time) {
		t.Helper()
		if got, at := b.of(obj); got != count || !at.Equal(last) {
			t.Errorf("%s: %d failures, the last at %s; want %d, %s", moment, got, at, count, last)
		}
	}

	b := &backoff{}
	first, second := machine("1", "pool", "small"), machine("2", "pool", "small")
	edited, other := machine("3", "pool", "big"), machine("4", "other", "small")
	b.note(first, failed, start)
	b.note(first, failed, start.Add(time.Minute))
	expect("a machine that is seen twice", first, b, 1, start)
	b.note(second, failed, start.Add(2*time.Minute))
	expect("the next one fails", first, b, 2, start.Add(2*time.Minute))
	expect("a machine of another pool", other, b, 0, time.Time{})
	expect("the first machine of another template", edited, b, 0, time.Time{})
	b.note(edited, failed, start.Add(3*time.Minute))
	b.note(first, failed, start.Add(4*time.Minute))
	expect("the other template fails, too, and the old machine is seen again", edited, b, 1, start.Add(3*time.Minute))
	b.note(edited, made, start.Add(5*time.Minute))
	expect("one is made", edited, b, 0, time.Time{})
	expect("and the old template counts no more", first, b, 0, time.Time{})
}

func TestBackoff_CountsThePoolsOfANamespaceThatFail(t *testing.T) {
	b, start := &backoff{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var failed machinejob.Decision
	failed.Status.FailureReason = rkev1.ReasonCreateError
	fail := func(namespace, pool string, times int) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		obj.SetNamespace(namespace)
		obj.SetLabels(map[string]string{clusterv1.MachineDeploymentNameLabel: pool})
		for i := range times {
			obj.SetUID(types.UID(fmt.Sprint(pool, i)))
			b.note(obj, failed, start)
		}
		return obj
	}
	one := fail("ns", "one", 2)
	fail("ns", "two", 3)
	fail("ns", "that may be an accident", 1)
	fail("ns-2", "of another namespace", 2)
	if got := b.neighbours(one, start); got != 3 {
		t.Errorf("%d pools fail, want 3", got)
	}
	if got := b.neighbours(one, start.Add(failing)); got != 0 {
		t.Errorf("%d pools fail an hour later, want 0", got)
	}
	start = start.Add(forgotten + time.Second)
	if fail("ns", "three", 1); len(b.failed) != 1 {
		t.Errorf("of pools that may be gone for a day this is kept: %v", b.failed)
	}
}
