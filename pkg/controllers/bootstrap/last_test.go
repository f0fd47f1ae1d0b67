package bootstrap_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// TestHook_TheLastMemberStaysUntilAnotherOneWorksWhereverTheProcessIsKilled: the last member stays until another works,
// even if one leaves before the others are deleted, as after renaming a pool.
func TestHook_TheLastMemberStaysUntilAnotherOneWorksWhereverTheProcessIsKilled(t *testing.T) {
	for name, names := range map[string][]string{"one": {"m1"}, "three": {"m1", "m2", "m3"}} {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, func(_ *testing.T, w *world) { etcdCluster(w, names...) }, func(t *testing.T, w *world) {
				last := names[len(names)-1]
				for _, name := range names {
					w.delete(name)
				}
				w.elapse(30 * time.Minute)
				w.wantKept(last)
				w.add(machine{name: "n1", etcd: true})
				w.elapse(time.Minute)
				w.wantKept(last)
				w.join("n1")
				w.plan("n1") // it does not run yet
				w.elapse(time.Minute)
				w.wantKept(last)
				w.report("n1")
				for _, name := range names {
					w.elapse(time.Minute)
					if !w.asked(name) {
						t.Fatalf("%s is never asked to leave", name)
					}
					w.leaves(name)
					w.wantReleased(name)
				}
			})
		})
	}
}

// TestHook_HoldsMembersWhileOthersJoin: a member stays while new machines join, but not for a machine that never joins.
func TestHook_HoldsMembersWhileOthersJoin(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		etcdCluster(w, "m1", "m2", "m3")
		w.add(machine{name: "n1", etcd: true})
		w.delete("m1")
		w.elapse(25 * time.Minute)
		w.wantKept("m1")
		w.elapse(6 * time.Minute)
		if !w.asked("m1") {
			t.Error("a machine that never joins delays another one forever")
		}
	})
}

// TestHook_BrokenMemberLeavesBeforeTheLastOne: a broken member leaves first, because etcd removes no other before it.
func TestHook_BrokenMemberLeavesBeforeTheLastOne(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		etcdCluster(w, "m1", "m2", "m3")
		w.lose("m2")
		for _, name := range []string{"m2", "m1", "m3"} {
			w.delete(name)
		}
		w.elapse(time.Minute)
		w.wantKept("m1", "m3")
		if !w.asked("m2") {
			t.Error("the lost member is not asked to leave")
		}
		w.leaves("m2")
		w.wantReleased("m2")
		w.wantKept("m3")
		w.wantGone("m1")
		w.wantKept("m3")
	})
}

// TestHook_AsksAClusterWithoutAKubeconfig: a member is removed even without a kubeconfig Secret, which may
// be late, lost, or not yet in the cache.
func TestHook_AsksAClusterWithoutAKubeconfig(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		etcdCluster(w, "m1", "m2", "m3")
		must(t, w.c.Core.Secret().Delete(namespace, "demo-kubeconfig", &metav1.DeleteOptions{}))
		w.settle()
		w.down.set(errDown, false)
		w.delete("m1")
		w.elapse(time.Minute)
		if hook, _ := w.held("m1"); !hook {
			t.Fatal("the machine is released although its member still exists")
		}
		w.down.set(nil, false)
		w.elapse(30 * time.Second)
		if !w.asked("m1") {
			t.Error("the member is never asked to leave")
		}
		w.leaves("m1")
		w.wantReleased("m1")
	})
}

// wantGone fails unless a machine's member is asked to leave and the machine is then deleted.
func (w *world) wantGone(name string) {
	w.Helper()
	w.elapse(30 * time.Second)
	if !w.asked(name) {
		w.Fatalf("%s is never asked to leave: %s", name, w.why(name))
	}
	w.leaves(name)
	w.wantReleased(name)
}

// why returns the message in a bootstrap object's status about its member, "" without one.
func (w *world) why(name string) string {
	w.Helper()
	c := conditions.GetMeta(w.bootstrap(name).Status.Conditions, rkev1.ConditionEtcdMemberLeft)
	if c == nil {
		return ""
	}
	if c.Status != metav1.ConditionFalse || c.Reason != bootstrapdata.ReasonEtcdMemberHeld {
		w.Errorf("%s: %s for %s", name, c.Status, c.Reason)
	}
	return c.Message
}

// wantKept fails unless machines are held and not asked to leave.
func (w *world) wantKept(names ...string) {
	w.Helper()
	for _, name := range names {
		if hook, _ := w.held(name); !hook || w.asked(name) {
			w.Fatalf("%s: held %v, asked to leave %v", name, hook, w.asked(name))
		}
	}
}

// report reports the current plan as applied, as the agent does.
func (w *world) report(name string) {
	w.Helper()
	secret := w.secret(name + "-machine-plan")
	secret.Data[nodeplan.KeyAppliedChecksum] = []byte(nodeplan.Checksum(secret.Data[nodeplan.KeyPlan]))
	_, err := w.c.Core.Secret().Update(secret)
	must(w.T, err)
}
