package clients

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// runs records the runs of handlers as HANDLER NAME, with an object's absence.
type runs struct {
	mu   sync.Mutex
	list []string
	fail error
}

func (r *runs) handler(name string) func(string, *corev1.Secret) (*corev1.Secret, error) {
	return func(key string, secret *corev1.Secret) (*corev1.Secret, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if secret == nil {
			key += " is deleted"
		}
		r.list = append(r.list, name+": "+key)
		return secret, r.fail
	}
}

func (r *runs) expect(t *testing.T, step string, want ...string) {
	t.Helper()
	pass(time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.list); diff != "" {
		t.Errorf("%s runs (-want +got):\n%s", step, diff)
	}
	r.list = nil
}

func secretOf(name string, kind corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Type: kind,
		Data: map[string][]byte{"key": []byte("value")}}
}

// A handler of one type of Secrets does not run for other types, not even when another object wakes one. It learns of
// every deletion of its own type.
func TestOnly_HandlersRunForTheirOwnType(t *testing.T) {
	run(t, nil, Options{}, func(c *Clients, start func()) {
		r, secrets := &runs{}, c.Core.Secret()
		plan := func(s *corev1.Secret) bool { return s.Type == rkev1.SecretTypeMachinePlan }
		marked := func(s *corev1.Secret) bool { return s.Annotations["mark"] != "" }
		secrets.OnChange(Only(c.HandlerContext(), plan), "plan", r.handler("plan"))
		secrets.OnChange(Only(c.HandlerContext(), marked), "marked", r.handler("marked"))
		start()
		update := func(name string, change func(s *corev1.Secret)) {
			t.Helper()
			stored, err := secrets.Get("ns", name, metav1.GetOptions{})
			check(t, err)
			change(stored)
			_, err = secrets.Update(stored)
			check(t, err)
		}
		mark := func(value string) func(s *corev1.Secret) {
			return func(s *corev1.Secret) { s.Annotations = map[string]string{"mark": value} }
		}
		create := func(name string, kind corev1.SecretType) {
			t.Helper()
			_, err := secrets.Create(secretOf(name, kind))
			check(t, err)
		}
		create("other", corev1.SecretTypeOpaque)
		update("other", func(s *corev1.Secret) { s.Data["key"] = []byte("changed") })
		r.expect(t, "a Secret of a user")
		secrets.EnqueueAfter("ns", "other", 0)
		secrets.EnqueueAfter("ns", "missing", 0)
		r.expect(t, "a wake-up of such a Secret, and of a missing one")
		create("plan", rkev1.SecretTypeMachinePlan)
		r.expect(t, "a plan", "plan: ns/plan")
		secrets.EnqueueAfter("ns", "plan", 0)
		r.expect(t, "a wake-up of a plan", "plan: ns/plan")
		update("plan", mark("yes"))
		r.expect(t, "a marked plan", "plan: ns/plan", "marked: ns/plan")
		update("plan", mark(""))
		r.expect(t, "a plan without its mark", "plan: ns/plan", "marked: ns/plan")
		update("plan", func(s *corev1.Secret) { s.Data["key"] = []byte("changed") })
		r.expect(t, "a change that concerns one handler", "plan: ns/plan")
		check(t, secrets.Delete("ns", "other", nil))
		r.expect(t, "the deletion of the user's Secret")
		r.fail = errors.New("not yet")
		check(t, secrets.Delete("ns", "plan", nil))
		pass(time.Millisecond)
		r.mu.Lock()
		r.fail, r.list = nil, r.list[:0]
		r.mu.Unlock()
		r.expect(t, "the failed deletion of a plan", "plan: ns/plan is deleted")
		create("plan", corev1.SecretTypeOpaque)
		r.expect(t, "a Secret of a user with that name")
	})
}

// A plan that is deleted and created with another type under the same name is gone for its handler.
func TestOnly_EdgeAnotherTypeUnderTheSameName(t *testing.T) {
	f := filterOf(Only(context.Background(), func(s *corev1.Secret) bool {
		return s.Type == rkev1.SecretTypeMachinePlan
	}))
	plan, other := secretOf("a", rkev1.SecretTypeMachinePlan), secretOf("a", corev1.SecretTypeOpaque)
	if f.concerns("ns/a", other) || f.concerns("ns/a", nil) || !f.concerns("ns/a", plan) {
		t.Error("a filter accepts its own type only")
	}
	f.begin("ns/a")
	f.end("ns/a", plan)
	if !f.concerns("ns/a", other) || !f.concerns("ns/a", nil) {
		t.Error("the end of a known object concerns its handler")
	}
	f.begin("ns/a")
	f.end("ns/a", other)
	if f.concerns("ns/a", other) || len(f.seen) > 0 {
		t.Error("the handler knows of the end")
	}
	if all := filterOf(t.Context()); !all.concerns("ns/a", nil) {
		t.Error("without a filter, everything concerns a handler")
	}
}
