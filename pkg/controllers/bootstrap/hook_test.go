package bootstrap_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

func threeMembers(_ *testing.T, w *world) { etcdCluster(w, "m1", "m2", "m3") }

// etcdCluster makes a reachable cluster with the named members as nodes.
func etcdCluster(w *world, names ...string) {
	w.Helper()
	for _, name := range names {
		w.add(machine{name: name, etcd: true})
	}
	w.settle()
	for _, name := range names {
		w.join(name)
		w.plan(name)
		w.report(name)
	}
	w.kubeconfig("demo")
	w.begin("demo")
	w.settle()
	for _, name := range names {
		if hook, finalizer := w.held(name); !hook || !finalizer {
			w.Fatalf("%s is not held: hook %v, finalizer %v", name, hook, finalizer)
		}
	}
}

// begin records, as the planner does, that a cluster has started.
func (w *world) begin(cluster string) {
	w.Helper()
	found, err := w.c.RKE.RKEControlPlane().Get(namespace, cluster, metav1.GetOptions{})
	must(w.T, err)
	found.Status.Conditions = []rkev1.GenericCondition{{Type: rkev1.ConditionBootstrapped, Status: "True"}}
	_, err = w.c.RKE.RKEControlPlane().UpdateStatus(found)
	must(w.T, err)
}

func (w *world) delete(name string) {
	w.Helper()
	must(w.T, w.c.CAPI.Machine().Delete(namespace, name, nil))
}

func (w *world) node(name string) *corev1.Node {
	w.Helper()
	node, err := w.down.nodes.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	must(w.T, err)
	return node
}

func (w *world) asked(name string) bool {
	w.Helper()
	return w.node(name).Annotations[rkev1.RemoveK3sEtcdMemberAnnotation] == "true"
}

// wantReleased fails unless a machine whose member has left loses its hook and finalizer.
func (w *world) wantReleased(name string) {
	w.Helper()
	w.elapse(15 * time.Second)
	if hook, finalizer := w.held(name); hook || finalizer {
		w.Errorf("%s: hook %v, finalizer %v after the member has left", name, hook, finalizer)
	}
}

// leaves confirms the removal of a node's member, as the distribution does.
func (w *world) leaves(name string) {
	w.Helper()
	node := w.node(name)
	node.Annotations[rkev1.RemovedK3sEtcdMemberAnnotation] = name
	_, err := w.down.nodes.CoreV1().Nodes().Update(w.Context(), node, metav1.UpdateOptions{})
	must(w.T, err)
}

// A machine whose member has left is released, even if its join URL is unknown. (docs/invariants.md#weaknesses, W27.)
func TestHook_MemberLeavesBeforeItsMachineGoes(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		etcdCluster(w, "m1", "m2", "m3")
		w.delete("m1")
		w.elapse(10 * time.Second)
		if hook, _ := w.held("m1"); !hook || !w.asked("m1") {
			t.Fatalf("hook %v, asked %v, want the member asked and the machine held", hook, w.asked("m1"))
		}
		w.wantQuiet(5 * time.Minute)
		w.leaves("m1")
		w.elapse(10 * time.Second)
		if hook, finalizer := w.held("m1"); hook || finalizer {
			t.Errorf("hook %v, finalizer %v after the member has left", hook, finalizer)
		}
		if hook, _ := w.held("m2"); !hook || w.asked("m2") {
			t.Error("another machine is released")
		}
		w.wantQuiet(5 * time.Minute)
	})
}

func TestHook_MembersLeaveOneAtATime(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		names := []string{"m1", "m2", "m3"}
		etcdCluster(w, names...)
		for _, name := range names[:2] {
			w.delete(name)
			w.elapse(time.Second)
		}
		w.elapse(30 * time.Second)
		if !w.asked("m1") || w.asked("m2") {
			t.Fatalf("asked: m1 %v, m2 %v; want the first deleted machine asked", w.asked("m1"), w.asked("m2"))
		}
		w.leaves("m1")
		w.elapse(time.Minute)
		if hook, _ := w.held("m1"); hook || !w.asked("m2") {
			t.Errorf("m1 held %v, m2 asked %v", hook, w.asked("m2"))
		}
	})
}

// The member that was already asked leaves first, because deletion times have whole seconds, so the order may be known
// too late.
func TestHook_MemberThatWasAskedAlreadyLeavesFirstWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 2, threeMembers, func(t *testing.T, w *world) {
		w.delete("m2")
		w.elapse(100 * time.Millisecond)
		if !w.asked("m2") {
			t.Fatal("m2 is not asked to leave")
		}
		w.delete("m1")
		w.elapse(30 * time.Second)
		if w.asked("m1") {
			t.Error("m1 is asked to leave while m2 is leaving")
		}
		w.leaves("m2")
		w.elapse(time.Minute)
		if hook, _ := w.held("m2"); hook || !w.asked("m1") {
			t.Errorf("m2 held %v, m1 asked %v", hook, w.asked("m1"))
		}
		w.leaves("m1")
		w.wantReleased("m1")
	})
}

// TestHook_LetsGoAtOnceWhereverTheProcessIsKilled: a machine is released at once if it has no member to wait for, or no
// cluster to ask.
func TestHook_LetsGoAtOnceWhereverTheProcessIsKilled(t *testing.T) {
	cases := map[string]func(w *world){
		"a member with the force-remove annotation": func(w *world) {
			content := map[string]any{
				"metadata": map[string]any{"annotations": map[string]string{rkev1.ForceRemoveEtcdAnnotation: "true"}}}
			_, err := w.c.RKE.RKEBootstrap().Patch(namespace, "m1", types.MergePatchType, encode(w.T, content))
			must(w.T, err)
		},
		"a cluster that is being deleted": func(w *world) {
			found, err := w.c.CAPI.Cluster().Get(namespace, "demo", metav1.GetOptions{})
			must(w.T, err)
			found.Finalizers = []string{"cluster.cluster.x-k8s.io"}
			_, err = w.c.CAPI.Cluster().Update(found)
			must(w.T, err)
			must(w.T, w.c.CAPI.Cluster().Delete(namespace, "demo", nil))
		},
		"a deleted control plane": func(w *world) {
			must(w.T, w.c.RKE.RKEControlPlane().Delete(namespace, "demo", nil))
		},
		"a cluster that was never initialized": func(w *world) {
			found, err := w.c.RKE.RKEControlPlane().Get(namespace, "demo", metav1.GetOptions{})
			must(w.T, err)
			found.Status.Conditions = nil
			_, err = w.c.RKE.RKEControlPlane().UpdateStatus(found)
			must(w.T, err)
			w.noteOnMachine("m1", rkev1.RenderVersionAnnotation, "1")
			w.loseReference("m1")
			w.down.set(errDown, false)
		},
		"a deleted node": func(w *world) {
			must(w.T, w.down.nodes.CoreV1().Nodes().Delete(w.Context(), "m1", metav1.DeleteOptions{}))
		},
		"a machine without a node": func(w *world) {
			w.noteOnMachine("m1", rkev1.RenderVersionAnnotation, "1")
			w.loseReference("m1")
		},
		"a machine without a plan": func(w *world) {
			w.planNone("m1")
			w.loseReference("m1")
			w.down.set(errDown, false)
		},
		"a machine whose node belongs to another one": func(w *world) {
			w.noteOnMachine("m1", rkev1.RenderVersionAnnotation, "1")
			w.loseReference("m1")
			w.pretend("m2", "m1")
		},
	}
	for name, happens := range cases {
		t.Run(name, func(t *testing.T) {
			retell(t, 4, threeMembers, func(t *testing.T, w *world) {
				happens(w)
				w.settle()
				w.delete("m1")
				w.elapse(20 * time.Second)
				if hook, finalizer := w.held("m1"); hook || finalizer {
					t.Errorf("hook %v, finalizer %v", hook, finalizer)
				}
			})
		})
	}
}

// loseReference makes Cluster API lose the node of a machine.
func (w *world) loseReference(name string) {
	w.Helper()
	found := w.machine(name)
	found.Status.NodeRef.Name = ""
	_, err := w.c.CAPI.Machine().UpdateStatus(found)
	must(w.T, err)
}

// pretend writes the machine's UID label to a node, as a kubelet does.
func (w *world) pretend(node, machine string) {
	w.Helper()
	patch := encode(w.T,
		map[string]any{
			"metadata": map[string]any{
				"labels": map[string]string{rkev1.MachineUIDLabel: string(w.machine(machine).UID)}}})
	_, err := w.down.nodes.CoreV1().Nodes().Patch(w.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
	must(w.T, err)
}

// TestHook_MemberWhoseNodeClusterAPIHasNotFoundWhereverTheProcessIsKilled: a machine that is deleted while it joins is
// found by its node's label, and held while the cluster does not answer.
func TestHook_MemberWhoseNodeClusterAPIHasNotFoundWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 5, threeMembers, func(t *testing.T, w *world) {
		w.noteOnMachine("m1", rkev1.RenderVersionAnnotation, "1")
		w.loseReference("m1")
		w.pretend("m1", "m1")
		w.settle()
		w.down.set(errDown, false)
		w.delete("m1")
		w.elapse(time.Minute)
		if hook, _ := w.held("m1"); !hook {
			t.Fatal("the machine is released although its member is unknown")
		}
		w.down.set(nil, false)
		w.elapse(30 * time.Second)
		if hook, _ := w.held("m1"); !hook || !w.asked("m1") {
			t.Fatalf("hook %v, asked %v, want the member asked and the machine held", hook, w.asked("m1"))
		}
		w.leaves("m1")
		w.elapse(10 * time.Second)
		if hook, finalizer := w.held("m1"); hook || finalizer {
			t.Errorf("hook %v, finalizer %v after the member has left", hook, finalizer)
		}
	})
}

// TestHook_TheOtherOfTwoIsKeptForAMomentWhereverTheProcessIsKilled: the first of two members waits briefly, because an
// operator who deletes both does not want to wait for a quorum.
func TestHook_TheOtherOfTwoIsKeptForAMomentWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 2, func(_ *testing.T, w *world) { etcdCluster(w, "m1", "m2") }, func(t *testing.T, w *world) {
		w.delete("m1")
		w.elapse(time.Second) // the status says why
		w.elapse(15 * time.Second)
		if w.asked("m1") {
			t.Error("the member is asked to leave at once")
		}
		w.elapse(15 * time.Second)
		if !w.asked("m1") {
			t.Error("the member is not asked to leave")
		}
		w.leaves("m1")
		w.wantReleased("m1")
	})
}

// TestHook_ClusterThatIsDownWhereverTheProcessIsKilled: a machine is held until its cluster is up, which is rarely
// queried meanwhile, and other machines do not wait.
func TestHook_ClusterThatIsDownWhereverTheProcessIsKilled(t *testing.T) {
	cases := map[string]struct {
		err  error
		hang bool
	}{
		"refuses": {err: errDown},
		"hangs":   {hang: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, threeMembers, func(t *testing.T, w *world) {
				w.down.set(c.err, c.hang)
				w.delete("m1")
				w.elapse(time.Minute) // the status says why
				w.down.set(c.err, c.hang)
				w.elapse(10 * time.Minute)
				if hook, finalizer := w.held("m1"); !hook || !finalizer {
					t.Fatalf("hook %v, finalizer %v although the member is unknown", hook, finalizer)
				}
				if calls := w.down.count(); calls < 10 || calls > 10*60/15+5 {
					t.Errorf("the cluster was queried %d times in ten minutes", calls)
				}
				w.add(machine{name: "new"})
				w.settle()
				w.wantMade("m1", "m2", "m3", "new")
				w.down.set(nil, false)
				w.elapse(45 * time.Second)
				if !w.asked("m1") {
					t.Error("the member is not asked to leave although the cluster answers again")
				}
				w.leaves("m1")
				w.wantReleased("m1")
			})
		})
	}
}

// TestHook_FinalizerCoversABootstrapObjectThatIsDeletedAloneWhereverTheProcessIsKilled: the machine keeps its hook
// until its member has left.
func TestHook_FinalizerCoversABootstrapObjectThatIsDeletedAloneWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 5, threeMembers, func(t *testing.T, w *world) {
		must(t, w.c.RKE.RKEBootstrap().Delete(namespace, "m1", nil))
		w.elapse(10 * time.Second)
		if hook, finalizer := w.held("m1"); !hook || !finalizer || !w.asked("m1") {
			t.Fatalf("hook %v, finalizer %v, asked %v", hook, finalizer, w.asked("m1"))
		}
		w.leaves("m1")
		w.elapse(10 * time.Second)
		if _, err := w.c.RKE.RKEBootstrap().Get(namespace, "m1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the RKEBootstrap is not deleted: %v", err)
		}
	})
}

// noteOnMachine writes an annotation of the planner to a Machine.
func (w *world) noteOnMachine(name, key, value string) {
	w.Helper()
	w.patchMachine(name, map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
}

// TestHook_MachineThatJoinedThisOneMovesFirstWhereverTheProcessIsKilled: a member waits until machines joined to it
// have moved, and an empty join URL matches no machine.
func TestHook_MachineThatJoinedThisOneMovesFirstWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 5, threeMembers, func(t *testing.T, w *world) {
		w.noteOnMachine("m1", rkev1.JoinURLAnnotation, "https://10.0.0.1:6443")
		w.noteOnMachine("m2", rkev1.JoinedToAnnotation, "https://10.0.0.1:6443")
		w.settle()
		w.delete("m1")
		w.elapse(time.Minute)
		if w.asked("m1") {
			t.Fatal("the member is asked to leave although another machine is joined to it")
		}
		w.noteOnMachine("m2", rkev1.JoinedToAnnotation, "https://10.0.0.3:6443")
		w.elapse(10 * time.Second)
		if !w.asked("m1") {
			t.Error("the member is not asked to leave")
		}
		w.leaves("m1")
		w.elapse(10 * time.Second)
		if hook, finalizer := w.held("m1"); hook || finalizer {
			t.Errorf("hook %v, finalizer %v after the member has left", hook, finalizer)
		}
	})
}

// TestHook_IgnoresWhatAPlanSecretClaimsAboutJoining: joins in a plan Secret have no effect, because its node could
// hold or release other machines.
func TestHook_IgnoresWhatAPlanSecretClaimsAboutJoining(t *testing.T) {
	const here, elsewhere = "https://10.0.0.1:6443", "https://10.0.0.3:6443"
	cases := map[string]struct {
		joined, forged string
		wantAsked      bool
	}{
		"a node claims to be joined":                   {joined: elsewhere, forged: here, wantAsked: true},
		"a node claims to be joined to another server": {joined: here, forged: elsewhere},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				etcdCluster(w, "m1", "m2", "m3")
				w.noteOnMachine("m1", rkev1.JoinURLAnnotation, here)
				w.noteOnMachine("m2", rkev1.JoinedToAnnotation, c.joined)
				w.annotateSecret("m1-machine-plan", rkev1.JoinURLAnnotation, here)
				w.annotateSecret("m2-machine-plan", rkev1.JoinedToAnnotation, c.forged)
				w.settle()
				w.delete("m1")
				w.elapse(time.Minute)
				if asked := w.asked("m1"); asked != c.wantAsked {
					t.Errorf("asked %v, want %v", asked, c.wantAsked)
				}
			})
		})
	}
}
