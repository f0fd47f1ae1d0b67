package bootstrap_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// lose makes Cluster API lose contact with a node.
func (w *world) lose(name string) {
	w.Helper()
	found := w.machine(name)
	found.Status.Conditions = append(found.Status.Conditions, metav1.Condition{
		Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionUnknown,
		Reason:             clusterv1.MachineNodeReadyUnknownReason,
		LastTransitionTime: metav1.Now(),
	})
	_, err := w.c.CAPI.Machine().UpdateStatus(found)
	must(w.T, err)
}

// plan delivers a plan that is not applied.
func (w *world) plan(name string) {
	w.Helper()
	secret := w.secret(name + "-machine-plan")
	secret.Data = map[string][]byte{"plan": []byte(`{}`)}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[rkev1.PlanUpdatedTimeAnnotation] = time.Now().UTC().Format(time.RFC3339)
	_, err := w.c.Core.Secret().Update(secret)
	must(w.T, err)
}

// planNone removes the plan of a machine.
func (w *world) planNone(name string) {
	w.Helper()
	secret := w.secret(name + "-machine-plan")
	secret.Data = nil
	_, err := w.c.Core.Secret().Update(secret)
	must(w.T, err)
}

// TestHook_MemberThatDoesNotWorkWaitsForNobodyWhereverTheProcessIsKilled: a broken member leaves before the machines
// joined to it restart, because it counts until then.
func TestHook_MemberThatDoesNotWorkWaitsForNobodyWhereverTheProcessIsKilled(t *testing.T) {
	for name, breaks := range map[string]func(*world){
		"its node is lost":       func(w *world) { w.lose("m1") },
		"its plan has not ended": func(w *world) { w.plan("m1"); w.elapse(11 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, threeMembers, func(t *testing.T, w *world) {
				w.noteOnMachine("m1", rkev1.JoinURLAnnotation, "https://10.0.0.1:6443")
				w.noteOnMachine("m2", rkev1.JoinedToAnnotation, "https://10.0.0.1:6443")
				breaks(w)
				w.plan("m3")
				w.settle()
				w.delete("m1")
				w.elapse(10 * time.Second)
				if !w.asked("m1") {
					t.Error("the lost member is not asked to leave")
				}
				w.leaves("m1")
				w.wantReleased("m1")
			})
		})
	}
}

// TestHook_MemberWithANewPlanCountsAsWorking: a member with a new plan works or restarts, and others move to another
// server before it leaves.
func TestHook_MemberWithANewPlanCountsAsWorking(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		etcdCluster(w, "m1", "m2", "m3")
		w.noteOnMachine("m1", rkev1.JoinURLAnnotation, "https://10.0.0.1:6443")
		w.noteOnMachine("m2", rkev1.JoinedToAnnotation, "https://10.0.0.1:6443")
		w.plan("m1")
		w.settle()
		w.delete("m1")
		w.elapse(time.Minute)
		if w.asked("m1") {
			t.Error("a member is asked to leave while another machine is joined to it")
		}
	})
}

// TestHook_ServerThatOthersJoinedHoldsUpNobodyWhereverTheProcessIsKilled: of two deleted members, the one without
// joined machines leaves first, because joined machines move only while no member is leaving.
func TestHook_ServerThatOthersJoinedHoldsUpNobodyWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 2, func(_ *testing.T, w *world) { etcdCluster(w, "m1", "m2", "m3", "m4", "m5") },
		func(t *testing.T, w *world) {
			w.noteOnMachine("m1", rkev1.JoinURLAnnotation, "https://10.0.0.1:6443")
			for _, other := range []string{"m2", "m3", "m4", "m5"} {
				w.noteOnMachine(other, rkev1.JoinedToAnnotation, "https://10.0.0.1:6443")
			}
			w.settle()
			w.delete("m1")
			w.delete("m2")
			w.elapse(10 * time.Second)
			if w.asked("m1") || !w.asked("m2") {
				t.Errorf("asked to leave: m1 %v, m2 %v", w.asked("m1"), w.asked("m2"))
			}
			w.leaves("m2")
			w.wantReleased("m2")
		})
}

// TestHook_MemberThatDoesNotWorkGoesFirstWhereverTheProcessIsKilled: a broken member leaves first, because etcd removes
// no working member while the others have no majority without it.
func TestHook_MemberThatDoesNotWorkGoesFirstWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 2, threeMembers, func(t *testing.T, w *world) {
		w.delete("m1")
		w.elapse(time.Second)
		w.lose("m2")
		w.delete("m2")
		w.elapse(10 * time.Second)
		if !w.asked("m2") {
			t.Error("the lost member waits for a working one")
		}
		w.leaves("m2")
		w.wantReleased("m2")
	})
}

// TestHook_MemberLeavesAfterARestartWhereverTheProcessIsKilled: a member waits for the restart of the last machine that
// was joined to it, which reports its move before it restarts.
func TestHook_MemberLeavesAfterARestartWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 2, threeMembers, func(t *testing.T, w *world) {
		w.plan("m2")
		w.settle()
		w.delete("m1")
		w.elapse(time.Minute)
		if w.asked("m1") {
			t.Fatal("a member is asked to leave while another one is restarted")
		}
		w.wantQuiet(6 * time.Minute)
		w.elapse(3 * time.Minute)
		if !w.asked("m1") {
			t.Error("a member that never ends its restart delays another one forever")
		}
		w.leaves("m1")
		w.wantReleased("m1")
	})
}
