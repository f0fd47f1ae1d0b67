package bootstrap_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// TestHook_OfAllMembersOnlyTheLastStaysWhereverTheProcessIsKilled: all members leave except the last, because a pool
// replaces only deleted machines, and one with joined machines leaves last.
func TestHook_OfAllMembersOnlyTheLastStaysWhereverTheProcessIsKilled(t *testing.T) {
	for name, tc := range map[string]struct {
		joined []string
		order  []string
	}{
		"in the order of their deletion":   {order: []string{"m1", "m2", "m3"}},
		"a worker is joined to the first":  {joined: []string{"m1"}, order: []string{"m2", "m3", "m1"}},
		"a worker is joined to the second": {joined: []string{"m2"}, order: []string{"m1", "m3", "m2"}},
		"a worker is joined to each":       {joined: []string{"m1", "m2", "m3"}, order: []string{"m1", "m2", "m3"}},
	} {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, threeMembers, func(t *testing.T, w *world) {
				for _, server := range tc.joined {
					w.joinWorker("w-"+server, server)
				}
				w.settle()
				for _, name := range []string{"m1", "m2", "m3"} {
					w.delete(name)
					w.elapse(time.Second)
				}
				w.wantGone(tc.order[0])
				w.wantGone(tc.order[1])
				w.elapse(time.Hour)
				w.wantKept(tc.order[2])
				if why := w.why(tc.order[2]); !strings.Contains(why, "no other healthy etcd member") {
					t.Errorf("the last machine waits for %q", why)
				}
			})
		})
	}
}

// TestHook_MovesOthersToAMemberThatStays: members wait until joined machines have moved, while a working member
// stays, and never for one that does not work.
func TestHook_MovesOthersToAMemberThatStays(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		etcdCluster(w, "m1", "m2", "m3")
		w.joinWorker("w1", "m1")
		w.joinWorker("w2", "m2")
		w.settle()
		w.delete("m1")
		w.delete("m2")
		w.elapse(time.Hour)
		w.wantKept("m1", "m2")
		if why := w.why("m1"); !strings.Contains(why, "use this machine as their server") ||
			!strings.Contains(why, "Ready of the Cluster") {
			t.Errorf("the machine waits for %q", why)
		}
		w.planNone("m3")
		w.wantGone("m1")
		w.elapse(time.Hour)
		w.wantKept("m2")
	})
}

// TestHook_MembersInDoubtLeaveBeforeWorkingOnes: a member that is not known to work leaves first, and the working
// one waits until another works.
func TestHook_MembersInDoubtLeaveBeforeWorkingOnes(t *testing.T) {
	for name, unknown := range map[string]func(w *world, machine string){
		"without a plan":   (*world).planNone,
		"without its node": func(w *world, machine string) { w.pretend(machine, machine); w.loseReference(machine) },
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				etcdCluster(w, "m1", "m2", "m3")
				unknown(w, "m1")
				unknown(w, "m3")
				w.elapse(time.Hour)
				w.delete("m2")
				w.elapse(5 * time.Second)
				w.delete("m1")
				w.wantGone("m1")
				w.elapse(3 * time.Hour)
				w.wantKept("m2")
			})
		})
	}
}

// TestHook_ServersWithAnotherDatastoreHaveNoMember: a server with another datastore is not held, unless its node has
// the etcd label because etcd data are on its disk.
func TestHook_ServersWithAnotherDatastoreHaveNoMember(t *testing.T) {
	for name, tc := range map[string]struct {
		config   string
		label    string
		wantHeld bool
	}{
		"in a database": {config: `{"datastore-endpoint":"postgres://db"}`},
		"in etcd, with a database in the configuration": {config: `{"datastore-endpoint":"postgres://db"}`,
			label: "true", wantHeld: true},
		"in etcd": {config: `{"token":"t"}`, wantHeld: true},
		"unknown": {wantHeld: true},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				etcdCluster(w, "m1", "m2", "m3")
				for _, name := range []string{"m1", "m2", "m3"} {
					w.labelNode(name, "node-role.kubernetes.io/etcd", tc.label)
					secret := w.secret(name + "-machine-plan")
					secret.Data = map[string][]byte{nodeplan.KeyPlan: []byte("{}")}
					if tc.config != "" {
						secret.Data[nodeplan.KeyPlan] = encode(t, map[string]any{"files": []any{map[string]any{
							"path":    "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml",
							"content": base64.StdEncoding.EncodeToString([]byte(tc.config)),
						}}})
					}
					_, err := w.c.Core.Secret().Update(secret)
					must(t, err)
					w.report(name)
				}
				w.settle()
				for _, name := range []string{"m1", "m2", "m3"} {
					w.delete(name)
					w.elapse(time.Minute)
					if hook, finalizer := w.held(name); hook != tc.wantHeld || finalizer != tc.wantHeld {
						t.Errorf("%s: hook %v, finalizer %v (%s)", name, hook, finalizer, w.why(name))
					}
				}
			})
		})
	}
}

// joinWorker adds a worker that is joined to a server.
func (w *world) joinWorker(name, server string) {
	w.Helper()
	w.add(machine{name: name})
	w.noteOnMachine(server, rkev1.JoinURLAnnotation, "https://"+server+":6443")
	w.noteOnMachine(name, rkev1.JoinedToAnnotation, "https://"+server+":6443")
}

// TestHook_LeavingMemberKeepsNoData: a member that leaves keeps no data, although its Machine and its last good
// report still exist.
func TestHook_LeavingMemberKeepsNoData(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		etcdCluster(w, "m1", "m2")
		w.annotateNode("m2", rkev1.RemoveK3sEtcdMemberAnnotation, "true")
		w.leaves("m2")
		w.delete("m1")
		w.elapse(time.Minute)
		w.wantKept("m1")
		if why := w.why("m1"); !strings.Contains(why, "no other healthy etcd member") ||
			!strings.Contains(why, rkev1.ForceRemoveEtcdAnnotation) {
			t.Errorf("the machine waits for %q", why)
		}
		w.wantQuiet(10 * time.Minute)
	})
}

// TestHook_WorkingMembersKeepTheData: a member whose node refuses its plan works, and one that a restore has stopped
// does not.
func TestHook_WorkingMembersKeepTheData(t *testing.T) {
	for name, tc := range map[string]struct {
		plan, failedAt string
		wantKept       bool
	}{
		"the other member works": {plan: `{}`},
		"the other member refuses its plan": {plan: `{"instructions":[{"name":"etcd-healthy"}]}`,
			failedAt: "etcd-healthy"},
		"the plan of the other member fails": {plan: `{"instructions":[{"name":"etcd-healthy"}]}`,
			failedAt: "install", wantKept: true},
		"a restore has stopped the other member": {
			plan: `{"instructions":[{"name":"install","env":["DROVER_OPERATION=etcd-restore-stop"]}]}`, wantKept: true},
		"a restore has replaced the data of the other member": {
			plan: `{"instructions":[{"name":"install","env":["DROVER_OPERATION=etcd-restore"]}]}`, wantKept: true},
		"the other member has not reported": {wantKept: true},
		"a rotation has restarted the other member": {
			plan: `{"instructions":[{"name":"install","env":["DROVER_OPERATION=certificate-rotation"]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				etcdCluster(w, "m1", "m2")
				w.planNone("m2")
				secret := w.secret("m2-machine-plan")
				secret.Data = map[string][]byte{}
				if tc.plan != "" {
					secret.Data[nodeplan.KeyPlan] = []byte(tc.plan)
				}
				if checksum := []byte(nodeplan.Checksum(secret.Data[nodeplan.KeyPlan])); tc.failedAt == "" {
					secret.Data[nodeplan.KeyAppliedChecksum] = checksum
				} else {
					output, err := nodeplan.EncodeOutput(
						map[string][]byte{nodeplan.OutputFailure: nodeplan.Failure{Instruction: tc.failedAt,
							ExitCode: 1}.Encode()})
					must(t, err)
					secret.Data[nodeplan.KeyFailedChecksum] = checksum
					secret.Data[nodeplan.KeyFailureCount] = []byte("1")
					secret.Data[nodeplan.KeyFailedOutput] = output
				}
				_, err := w.c.Core.Secret().Update(secret)
				must(t, err)
				w.elapse(20 * time.Minute)
				w.delete("m1")
				w.elapse(time.Minute)
				if w.asked("m1") == tc.wantKept {
					t.Errorf("asked to leave: %v (%s)", w.asked("m1"), w.why("m1"))
				}
			})
		})
	}
}

// TestHook_ReportsMembersThatMustLeaveFirst: an old request to a node without etcd delays no member, and a node without
// a known machine may be a member.
func TestHook_ReportsMembersThatMustLeaveFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		add      func(w *world)
		wantKept string
	}{
		"a worker": {add: func(w *world) { w.add(machine{name: "x"}); w.settle(); w.join("x") }},
		"another member": {
			add: func(w *world) {
				w.add(machine{name: "x", etcd: true})
				w.settle()
				w.join(
					"x")
			}, wantKept: "the etcd member of node x must leave first",
		},
		"without a machine": {
			add: func(w *world) {
				w.add(machine{name: "x", etcd: true})
				w.settle()
				w.join("x")
				w.loseReference("x")
				w.deleteNow("x")
			},
			wantKept: "the etcd member of node x must leave first",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				etcdCluster(w, "m1", "m2", "m3")
				tc.add(w)
				w.labelNode("x", "node-role.kubernetes.io/etcd", "true")
				w.annotateNode("x", rkev1.RemoveK3sEtcdMemberAnnotation, "true")
				w.settle()
				w.delete("m1")
				w.elapse(time.Minute)
				if tc.wantKept == "" {
					w.wantGone("m1")
					return
				}
				w.wantKept("m1")
				if why := w.why("m1"); !strings.HasPrefix(why, tc.wantKept) ||
					!strings.Contains(why, "delete the Node in the cluster") {
					t.Errorf("the machine waits for %q", why)
				}
				w.leaves("x")
				w.wantGone("m1")
				if why := w.why("m1"); why != "" {
					t.Errorf("the machine is released, and waits for %q", why)
				}
			})
		})
	}
}

// TestHook_DoesNotWaitForFailedMachines: members do not wait for failed machines, nor for an endless series of
// new ones.
func TestHook_DoesNotWaitForFailedMachines(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, reason string
		wantKept     bool
	}{
		"its host is being created": {clusterv1.MachineInfrastructureReadyCondition, "Creating", true},
		"its host cannot be created": {clusterv1.MachineInfrastructureReadyCondition, rkev1.ReasonCreateError,
			false},
		"it has no bootstrap data":             {clusterv1.MachineBootstrapConfigReadyCondition, "BadInput", false},
		"its bootstrap data are being written": {clusterv1.MachineBootstrapConfigReadyCondition, "NotReady", true},
		"it has no condition yet":              {"Other", "Other", true},
		"its infrastructure reports an error": {clusterv1.MachineInfrastructureReadyCondition, rkev1.ReasonError,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(t *testing.T, w *world) {
				etcdCluster(w, "m1", "m2", "m3")
				w.add(machine{name: "n1", etcd: true})
				w.say("n1", tc.kind, tc.reason)
				w.delete("m1")
				w.elapse(time.Minute)
				if w.asked("m1") == tc.wantKept {
					t.Errorf("asked to leave: %v (%s)", w.asked("m1"), w.why("m1"))
				}
			})
		})
	}
	t.Run("each of them is replaced", func(t *testing.T) {
		tell(t, func(t *testing.T, w *world) {
			etcdCluster(w, "m1", "m2", "m3")
			w.delete("m1")
			for _, name := range []string{"n1", "n2", "n3", "n4"} {
				w.add(machine{name: name, etcd: true})
				w.elapse(8 * time.Minute)
			}
			if !w.asked("m1") {
				t.Errorf("the machine waits forever: %s", w.why("m1"))
			}
		})
	})
}

// TestHook_WhyAMachineIsHeldIsInItsStatusWhereverTheProcessIsKilled: the status shows the reason while a machine is
// held, without repeated writes.
func TestHook_WhyAMachineIsHeldIsInItsStatusWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 6, threeMembers, func(t *testing.T, w *world) {
		want := func(part string) {
			t.Helper()
			w.elapse(20 * time.Second)
			if why := w.why("m1"); !strings.Contains(why, part) || part == "" && why != "" {
				t.Errorf("it waits for %q, want %q", why, part)
			}
		}
		want("")
		w.noteOnMachine("m1", rkev1.JoinURLAnnotation, "https://10.0.0.1:6443")
		w.noteOnMachine("m2", rkev1.JoinedToAnnotation, "https://10.0.0.1:6443")
		w.settle()
		w.delete("m1")
		want("use this machine as their server")
		w.down.set(errDown, false)
		w.noteOnMachine("m2", rkev1.JoinedToAnnotation, "https://10.0.0.3:6443")
		want("use this machine as their server") // a short silence is no news
		w.elapse(20 * time.Second)
		want("does not answer")
		w.wantQuiet(5 * time.Minute)
		w.down.set(nil, false)
		want("the etcd member of node m1 must leave")
		w.leaves("m1")
		w.wantReleased("m1")
		want("")
	})
}

// say adds a condition that Cluster API copies from the infrastructure or bootstrap of a machine.
func (w *world) say(name, kind, reason string) {
	w.Helper()
	// the controller writes the hook of new machines
	must(w.T, clients.RetryOnConflict(retry.DefaultRetry, func() error {
		found := w.machine(name)
		found.Status.Conditions = append(found.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.Now(),
		})
		_, err := w.c.CAPI.Machine().UpdateStatus(found)
		return err
	}))
}

// deleteNow deletes a machine with its finalizers.
func (w *world) deleteNow(name string) {
	w.Helper()
	w.patchMachine(name, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	w.delete(name)
}

func (w *world) annotateNode(node, key, value string) { w.editNode(node, "annotations", key, value) }

func (w *world) labelNode(node, key, value string) { w.editNode(node, "labels", key, value) }

func (w *world) editNode(node, field, key, value string) {
	w.Helper()
	patch := encode(w.T, map[string]any{"metadata": map[string]any{field: map[string]string{key: value}}})
	_, err := w.down.nodes.CoreV1().Nodes().Patch(w.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
	must(w.T, err)
}
