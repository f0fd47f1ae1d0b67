package machinenodelookup_test

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// TestStory_NodeOfAnotherMachineIsNotBelievedWhereverTheProcessIsKilled: a machine does not get a node that a kubelet
// labels falsely, and still gets its own node.
func TestStory_NodeOfAnotherMachineIsNotBelievedWhereverTheProcessIsKilled(t *testing.T) {
	retell(t, 2, func(t *testing.T, w *world) {
		uid := w.add("bad", "demo", custom, true)
		w.join("bad", uid)
		w.elapse(10 * time.Second)
		if id, _ := w.infra(custom, "bad"); id != "k3s://bad" {
			t.Fatalf("provider ID is %q", id)
		}
		// Cluster API copies the provider ID and finds the node.
		_, err := w.c.CAPI.Machine().Patch(namespace, "bad", types.MergePatchType,
			[]byte(`{"spec":{"providerID":"k3s://bad"}}`))
		must(t, err)
		found, err := w.c.CAPI.Machine().Get(namespace, "bad", metav1.GetOptions{})
		must(t, err)
		found.Status.NodeRef.Name = "bad"
		_, err = w.c.CAPI.Machine().UpdateStatus(found)
		must(t, err)

		victim := w.add("m1", "demo", custom, true)
		_, err = w.down.nodes.CoreV1().Nodes().Patch(w.Context(), "bad", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"rke.cattle.io/machine":"`+string(victim)+`"}}}`), metav1.PatchOptions{})
		must(t, err)
		w.elapse(time.Minute)
		if id, addresses := w.infra(custom, "m1"); id != "" || len(addresses) > 0 {
			t.Fatalf("provider ID %q and addresses %v of another machine's node", id, addresses)
		}
		w.join("m1", victim)
		w.elapse(30 * time.Second)
		if id, _ := w.infra(custom, "m1"); id != "k3s://m1" {
			t.Errorf("provider ID %q, want that of its own node", id)
		}
	})
}

// label writes labels of a Machine.
func (w *world) label(machine string, labels map[string]string) {
	w.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	must(w.T, err)
	_, err = w.c.CAPI.Machine().Patch(namespace, machine, types.MergePatchType, patch)
	must(w.T, err)
}

// report makes a machine's agent leave only that key in its plan Secret.
func (w *world) report(machine, key string) {
	w.Helper()
	data := map[string]any{"applied-checksum": nil}
	data[key] = []byte("x")
	patch, err := json.Marshal(map[string]any{"data": data})
	must(w.T, err)
	_, err = w.c.Core.Secret().Patch(namespace, machine+"-machine-plan", types.MergePatchType, patch)
	must(w.T, err)
}

// TestStory_NodeBeforeItsMachineHasReportedWhereverTheProcessIsKilled: a node with a machine's label before that
// machine has reported is an impostor, and no node is even looked for.
func TestStory_NodeBeforeItsMachineHasReportedWhereverTheProcessIsKilled(t *testing.T) {
	for _, key := range []string{"applied-checksum", "failed-checksum"} {
		t.Run(key, func(t *testing.T) {
			retell(t, 2, func(t *testing.T, w *world) {
				uid := w.add("m1", "demo", driverKind, false)
				w.report("m1", "probe-statuses")
				w.elapse(time.Second)
				w.makeReady("m1")
				w.join("impostor", uid)
				w.down.set(nil, false)
				w.elapse(10 * time.Minute)
				if id, addresses := w.infra(driverKind, "m1"); id != "" || len(addresses) > 0 || w.down.count() > 0 {
					t.Fatalf("provider ID %q and addresses %v after %d requests, before the machine has reported", id,
						addresses, w.down.count())
				}
				must(t, w.down.nodes.CoreV1().Nodes().Delete(t.Context(), "impostor", metav1.DeleteOptions{}))
				w.join("m1", uid)
				w.report("m1", key)
				w.elapse(time.Second)
				if id, _ := w.infra(driverKind, "m1"); id != "k3s://m1" {
					t.Errorf("provider ID %q after its report", id)
				}
			})
		})
	}
}

// TestStory_NodeThatIsEvidentlyAnotherMachineWhereverTheProcessIsKilled: a worker that labels its node as a new machine
// is rejected by properties that a kubelet cannot write.
func TestStory_NodeThatIsEvidentlyAnotherMachineWhereverTheProcessIsKilled(t *testing.T) {
	server := map[string]string{rkev1.ControlPlaneRoleLabel: rkev1.RoleLabelValue}
	serves := func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "true" }
	plain := func(*corev1.Node) {}
	cases := map[string]struct {
		victim, impostor map[string]string // labels of the Machines
		node             string            // name of the impostor's node
		own              func(*corev1.Node)
	}{
		"by the host name from its driver": {node: "bad", own: plain},
		"by the name from its user": {impostor: map[string]string{rkev1.NodeNameLabel: "Web-1"}, node: "web-1",
			own: plain},
		"by the missing role of a server": {victim: server, node: "unknown", own: serves},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, func(t *testing.T, w *world) {
				w.add("bad", "demo", driverKind, true)
				w.label("bad", c.impostor)
				victim := w.add("m1", "demo", driverKind, false)
				w.label("m1", c.victim)
				w.join(c.node, victim)
				w.elapse(time.Second)
				w.makeReady("m1")
				w.elapse(time.Minute)
				if id, addresses := w.infra(driverKind, "m1"); id != "" || len(addresses) > 0 {
					t.Fatalf("provider ID %q and addresses %v of another machine's node", id, addresses)
				}
				w.join("m1", victim, c.own)
				w.elapse(30 * time.Second)
				if id, _ := w.infra(driverKind, "m1"); id != "k3s://m1" {
					t.Errorf("provider ID %q, want that of its own node", id)
				}
			})
		})
	}
}

// TestStory_NamesThatProveNothingWhereverTheProcessIsKilled: a host that was registered twice, or whose cloud names its
// node, is accepted.
func TestStory_NamesThatProveNothingWhereverTheProcessIsKilled(t *testing.T) {
	cases := map[string]struct {
		labels map[string]string // of both Machines
		node   string
	}{
		"a name that both machines claim": {labels: map[string]string{rkev1.NodeNameLabel: "web"}, node: "web"},
		"an unknown name":                 {node: "ip-10-0-0-1.ec2.internal"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			retell(t, 2, func(t *testing.T, w *world) {
				w.add("before", "demo", custom, true)
				uid := w.add("m1", "demo", custom, true)
				w.label("before", c.labels)
				w.label("m1", c.labels)
				w.join(c.node, uid)
				w.elapse(30 * time.Second)
				if id, _ := w.infra(custom, "m1"); id != "k3s://"+c.node {
					t.Errorf("provider ID is %q", id)
				}
			})
		})
	}
}
