package machinenodelookup_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestStory_NodeOfAnotherMachineIsNotBelieved: a kubelet may label its own node as any machine. Neither does that machine get the
// node, and be joined at its address, nor is it kept from its own.
func TestStory_NodeOfAnotherMachineIsNotBelieved(t *testing.T) {
	tell(t, func(t *testing.T, w *world) {
		uid := w.add("bad", "demo", custom, true)
		w.join("bad", uid)
		w.elapse(10 * time.Second)
		if id, _ := w.infra(custom, "bad"); id != "k3s://bad" {
			t.Fatalf("provider ID is %q", id)
		}
		// Cluster API takes the provider ID over and finds the node.
		_, err := w.c.CAPI.Machine().Patch(namespace, "bad", types.MergePatchType, []byte(`{"spec":{"providerID":"k3s://bad"}}`))
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
