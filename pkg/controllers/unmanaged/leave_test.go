package unmanaged_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/hostremoval"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// join plays Cluster API and the planner: the host becomes a machine with a plan and a node.
func (w *world) join(id string, flags map[string]string) string {
	w.Helper()
	name := naming.MachineRequest(naming.MachineRequestCustom, id)
	_, err := w.user.Core.Secret().Create(request(demo, id, flags))
	must(w.T, err)
	w.pass(3 * time.Second)
	machine, err := w.user.CAPI.Machine().Get(namespace, name, metav1.GetOptions{})
	must(w.T, err)
	machine.Finalizers = []string{clusterv1.MachineFinalizer}
	machine, err = w.user.CAPI.Machine().Update(machine)
	must(w.T, err)
	machine.Status.NodeRef.Name = "node-" + id
	machine.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: "True",
		Reason: "NodeReady", LastTransitionTime: metav1.Now()}}
	machine, err = w.user.CAPI.Machine().UpdateStatus(machine)
	must(w.T, err)
	custom, err := w.user.RKE.CustomMachine().Get(namespace, name, metav1.GetOptions{})
	must(w.T, err)
	custom.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine",
		Name: name, UID: machine.UID}}
	_, err = w.user.RKE.CustomMachine().Update(custom)
	must(w.T, err)
	must(w.T, w.api.Add(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.PlanSecret(name)},
		Type:       rkev1.SecretTypeMachinePlan, Data: servingPlan(w.T),
	}))
	w.pass(3 * time.Second)
	return name
}

// servingPlan is a plan of a K3s server that its agent has applied, with a healthy etcd.
func servingPlan(t *testing.T) map[string][]byte {
	t.Helper()
	raw, err := nodeplan.Encode(plan.NodePlan{
		Files:  []plan.File{{Path: "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", Content: "e30="}},
		Probes: map[string]plan.Probe{"etcd": {}},
	})
	must(t, err)
	return map[string][]byte{nodeplan.KeyPlan: raw, nodeplan.KeyAppliedChecksum: []byte(nodeplan.Checksum(raw)),
		nodeplan.KeyProbeStatuses: []byte(`{"etcd":{"healthy":true}}`)}
}

// remove plays a user who deletes a Machine, and Cluster API, which deletes the CustomMachine after the drain. A guard
// keeps the CustomMachine, so that the test sees its status.
func (w *world) remove(name string) {
	w.Helper()
	_, err := w.user.RKE.CustomMachine().Patch(namespace, name, types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/guard"}]`))
	must(w.T, err)
	must(w.T, w.user.CAPI.Machine().Delete(namespace, name, &metav1.DeleteOptions{}))
	w.pass(3 * time.Second)
	w.hasPlan(name, false)
	must(w.T, w.user.RKE.CustomMachine().Delete(namespace, name, &metav1.DeleteOptions{}))
	w.pass(3 * time.Second)
}

func (w *world) plan(name string) *corev1.Secret {
	w.Helper()
	secret, err := w.user.Core.Secret().Get(namespace, naming.PlanSecret(name), metav1.GetOptions{})
	must(w.T, err)
	return secret
}

// hasPlan checks whether the host has its last plan.
func (w *world) hasPlan(name string, want bool) {
	w.Helper()
	decoded, err := nodeplan.Decode(w.plan(name).Data[nodeplan.KeyPlan])
	must(w.T, err)
	if got := hostremoval.IsLast(decoded); got != want {
		w.Errorf("the host has its last plan: %v", got)
	}
}

// agentReports plays the agent.
func (w *world) agentReports(name string, keys map[string]string) {
	w.Helper()
	secret := w.plan(name)
	for key, value := range keys {
		secret.Data[key] = []byte(strings.ReplaceAll(value, "CHECKSUM",
			nodeplan.Checksum(secret.Data[nodeplan.KeyPlan])))
	}
	_, err := w.user.Core.Secret().Update(secret)
	must(w.T, err)
	w.pass(3 * time.Second)
}

// left checks the condition of the host, and whether Drover still holds its CustomMachine.
func (w *world) left(name, reason, message string, held bool) {
	w.Helper()
	custom, err := w.user.RKE.CustomMachine().Get(namespace, name, metav1.GetOptions{})
	must(w.T, err)
	c := conditions.Get(custom.Status.Conditions, rkev1.ConditionHostCleaned)
	if c == nil {
		c = &rkev1.GenericCondition{}
	}
	if c.Reason != reason || !strings.Contains(c.Message, message) {
		w.Errorf("the condition is %+v, want %s with %q", c, reason, message)
	}
	if got := len(custom.Finalizers) == 2; got != held {
		w.Errorf("the finalizers are %v, held must be %v", custom.Finalizers, held)
	}
}

var edge = map[string]string{"role-etcd": "true", "role-control-plane": "true"}

func TestStory_HostThatLeavesIsCleaned(t *testing.T) {
	for name, tc := range map[string]struct {
		report          map[string]string
		pass            time.Duration
		reason, message string
		held            bool
	}{
		"it is at work": {pass: 4 * time.Minute, reason: "HostCleaning", message: "removes k3s", held: true},
		"it is done": {report: map[string]string{"applied-checksum": "CHECKSUM"}, reason: "HostCleaned",
			message: "k3s and the agent are removed"},
		"it failed once": {report: map[string]string{"failed-checksum": "CHECKSUM", "failure-count": "1"},
			reason: "HostCleaning", held: true},
		"it failed for good": {report: map[string]string{"failed-checksum": "CHECKSUM", "failure-count": "3"},
			reason: "HostNotCleaned", message: "run as root: rancher-system-agent-uninstall.sh, k3s-uninstall.sh"},
		"it does not answer": {pass: 5 * time.Minute, reason: "HostNotCleaned", message: "did not answer for 5m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				machine := w.join(identity, edge)
				w.remove(machine)
				w.hasPlan(machine, true)
				w.left(machine, "HostCleaning", "removes k3s", true)
				if tc.report != nil {
					w.agentReports(machine, tc.report)
				}
				w.pass(tc.pass)
				w.left(machine, tc.reason, tc.message, tc.held)
				if !tc.held {
					w.pass(time.Minute) // the request is swept
					w.quiet(time.Hour)
				}
			})
		})
	}
}

// A host whose node is lost has less time.
func TestStory_HostThatIsAwayHoldsItsDeletionForAMoment(t *testing.T) {
	tell(t, func(w *world) {
		machine := w.join(identity, edge)
		w.loseNode(machine, "NodeReadyUnknown")
		w.pass(time.Minute)
		w.remove(machine)
		w.left(machine, "HostCleaning", "", true)
		w.pass(2 * time.Minute)
		w.left(machine, "HostNotCleaned", "did not answer for 2m0s", false)
	})
}

func (w *world) loseNode(name, reason string) {
	w.Helper()
	machine, err := w.user.CAPI.Machine().Get(namespace, name, metav1.GetOptions{})
	must(w.T, err)
	machine.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: "Unknown",
		Reason: reason, LastTransitionTime: metav1.Now()}}
	_, err = w.user.CAPI.Machine().UpdateStatus(machine)
	must(w.T, err)
}

func TestStory_HostsThatAreNotCleaned(t *testing.T) {
	annotate := func(value string) []byte {
		return []byte(`{"metadata":{"annotations":{"drover.io/clean-host":"` + value + `"}}}`)
	}
	onMachine := func(w *world, value string) {
		_, err := w.user.CAPI.Machine().Patch(namespace, host, types.MergePatchType, annotate(value))
		must(w.T, err)
	}
	onCluster := func(w *world, value string) {
		_, err := w.user.Provisioning.Cluster().Patch(namespace, "demo", types.MergePatchType, annotate(value))
		must(w.T, err)
	}
	deleteCluster := func(w *world) {
		_, err := w.user.Provisioning.Cluster().Patch(namespace, "demo", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":["example.com/keep"]}}`))
		must(w.T, err)
		must(w.T, w.user.Provisioning.Cluster().Delete(namespace, "demo", &metav1.DeleteOptions{}))
	}
	for name, tc := range map[string]struct {
		given   func(w *world)
		cleaned bool
	}{
		"the Machine says so": {func(w *world) { onMachine(w, "false") }, false},
		"the Cluster says so": {func(w *world) { onCluster(w, "false") }, false},
		"the Machine overrides the Cluster": {func(w *world) { onCluster(w, "false"); onMachine(w, "true") },
			true},
		"the cluster is deleted": {deleteCluster, false},
		"the cluster is deleted and cleans its hosts": {func(w *world) { onCluster(w, "true"); deleteCluster(w) },
			true},
		"it has no plan Secret": {func(w *world) {
			must(w.T, w.user.Core.Secret().Delete(namespace, naming.PlanSecret(host), &metav1.DeleteOptions{}))
			w.pass(time.Second)
			must(w.T, w.api.Add(&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.PlanSecret(host),
					DeletionTimestamp: new(metav1.Now()), Finalizers: []string{"example.com/keep"}},
				Type: rkev1.SecretTypeMachinePlan, Data: servingPlan(w.T)}))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				machine := w.join(identity, edge)
				tc.given(w)
				w.pass(time.Second)
				w.remove(machine)
				w.hasPlan(machine, tc.cleaned)
				if tc.cleaned {
					w.left(machine, "HostCleaning", "", true)
				} else {
					w.left(machine, "", "", false)
				}
			})
		})
	}
}

// A CustomMachine that is deleted before Cluster API may do so keeps its host: a user deleted it alone, or the Machine
// was deleted in the foreground and its etcd member has not left.
func TestStory_HostThatIsStillNeededIsNotCleaned(t *testing.T) {
	tell(t, func(w *world) {
		machine := w.join(identity, edge)
		_, err := w.user.RKE.CustomMachine().Patch(namespace, machine, types.JSONPatchType,
			[]byte(`[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/guard"}]`))
		must(w.T, err)
		hook := func(value string) {
			_, err := w.user.CAPI.Machine().Patch(namespace, machine, types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"`+rkev1.PreTerminateAnnotation+`":`+value+`}}}`))
			must(w.T, err)
			w.pass(3 * time.Second)
		}
		held := func() {
			w.Helper()
			w.pass(10 * time.Minute)
			w.hasPlan(machine, false)
			w.left(machine, "HostCleaning", "when its Machine is deleted and its etcd member has left", true)
		}
		hook(`"true"`)
		must(w.T, w.user.RKE.CustomMachine().Delete(namespace, machine, &metav1.DeleteOptions{}))
		held()
		must(w.T, w.user.CAPI.Machine().Delete(namespace, machine, &metav1.DeleteOptions{}))
		held()
		hook("null")
		w.hasPlan(machine, true)
		w.left(machine, "HostCleaning", "removes k3s", true)
	})
}

// The host is cleaned once and leaves, wherever the process is killed.
func TestStory_HostIsCleanedWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	crashpoints.Each(t, 5, func(t *testing.T, n int) (writes int) {
		t.Helper()
		inWorld(t, func(w *world) {
			machine := w.join(identity, edge)
			w.api.ResetLog()
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			before := w.api.Written(agent)
			w.remove(machine)
			w.pass(5 * time.Second)
			w.hasPlan(machine, true)
			w.agentReports(machine, map[string]string{"applied-checksum": "CHECKSUM"})
			w.pass(5 * time.Second)
			w.left(machine, "HostCleaned", "", false)
			writes = w.api.Written(agent) - before
		})
		return writes
	})
}

// A duration on the RKECluster removes a host that is away, and changing it takes effect at once.
func TestStory_HostThatIsAwayForTooLong(t *testing.T) {
	tell(t, func(w *world) {
		w.reachable.Store(true)
		must(t, w.api.Add(&rkev1.RKECluster{
			TypeMeta: metav1.TypeMeta{APIVersion: rkev1.SchemeGroupVersion.String(), Kind: "RKECluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: "x"}}},
		}))
		w.patchCAPI(`{"spec":{"infrastructureRef":{"apiGroup":"rke.cattle.io","kind":"RKECluster","name":"demo"}}}`)
		w.join("server", edge)
		worker := w.join("worker", role("worker"))
		node := w.node("node-worker", worker, corev1.ConditionTrue)
		after := func(value string) {
			_, err := w.user.RKE.RKECluster().Patch(
				namespace,
				"demo",
				types.MergePatchType,
				[]byte(
					`{"metadata":{"annotations":{"rke.cattle.io/delete-missing-custom-machines-after":"`+value+`"}}}`,
				),
			)
			must(t, err)
			w.pass(3 * time.Second)
		}
		deleted := func() bool {
			machine, err := w.user.CAPI.Machine().Get(namespace, worker, metav1.GetOptions{})
			must(t, err)
			return machine.DeletionTimestamp != nil
		}
		after("1h")
		w.pass(time.Minute) // the requests are swept
		w.quiet(2 * time.Hour)
		w.loseNode(worker, "NodeReadyUnknown") // but the cluster says otherwise
		w.quiet(2 * time.Hour)
		w.setReady(node, corev1.ConditionUnknown)
		for _, value := range []string{"", "tomorrow", "-1h", "24h"} {
			after(value)
			if deleted() {
				t.Fatalf("the Machine is deleted with the duration %q", value)
			}
		}
		after("90m")
		if !deleted() {
			t.Error("the Machine is not deleted")
		}
		w.quiet(time.Hour)
	})
}

func (w *world) node(name, machine string, ready corev1.ConditionStatus) *corev1.Node {
	w.Helper()
	owner, err := w.user.CAPI.Machine().Get(namespace, machine, metav1.GetOptions{})
	must(w.T, err)
	node, err := w.nodes.CoreV1().Nodes().Create(w.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{rkev1.MachineUIDLabel: string(owner.UID)}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}, metav1.CreateOptions{})
	must(w.T, err)
	return node
}

func (w *world) setReady(node *corev1.Node, ready corev1.ConditionStatus) {
	w.Helper()
	node.Status.Conditions[0].Status = ready
	_, err := w.nodes.CoreV1().Nodes().UpdateStatus(w.Context(), node, metav1.UpdateOptions{})
	must(w.T, err)
}

// A host that registers again removes the node of its former Machine, and no other one.
func TestStory_FormerNodeDoesNotBlockTheHost(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		flags  map[string]string
		gone   bool
	}{
		"by its host name": {
			map[string]string{rkev1.MachineUIDLabel: "former"}, map[string]string{"role-worker": "true",
				"hostname": "Edge-1"}, true},
		"by the name of the node": {map[string]string{rkev1.MachineUIDLabel: "former"},
			map[string]string{"role-worker": "true", "node-name": "edge-1", "hostname": "other"}, true},
		"another name": {map[string]string{rkev1.MachineUIDLabel: "former"}, map[string]string{"role-worker": "true",
			"hostname": "edge-2"}, false},
		"an old script":        {map[string]string{rkev1.MachineUIDLabel: "former"}, role("worker"), false},
		"a node of no machine": {nil, map[string]string{"role-worker": "true", "hostname": "edge-1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tell(t, func(w *world) {
				w.reachable.Store(true)
				_, err := w.nodes.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: "edge-1", Labels: tc.labels}}, metav1.CreateOptions{})
				must(t, err)
				w.ask(demo, tc.flags)
				w.pass(3 * time.Second)
				w.answered(demo, ours+host)
				nodes, err := w.nodes.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
				must(t, err)
				if gone := len(nodes.Items) == 0; gone != tc.gone {
					data, _ := json.Marshal(nodes.Items)
					t.Errorf("nodes: %s", data)
				}
			})
		})
	}
}

// A host waits while a Machine whose node has its name is being deleted, because Cluster API deletes that node by name.
func TestStory_HostWaitsForTheDeletionOfItsFormerNode(t *testing.T) {
	tell(t, func(w *world) {
		former := w.join("former", edge)
		must(t, w.user.CAPI.Machine().Delete(namespace, former, &metav1.DeleteOptions{}))
		w.pass(time.Second)
		w.ask(demo, map[string]string{"role-worker": "true", "hostname": "node-former"})
		w.pass(10 * time.Second)
		w.answered(demo, "")
		_, err := w.user.CAPI.Machine().Patch(namespace, former, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`))
		must(t, err)
		w.pass(3 * time.Second)
		w.answered(demo, ours+host)
	})
}
