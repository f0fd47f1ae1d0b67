package planner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The user's choice counts also while the machine cannot start for a moment. A warning says when another one has
// started the cluster.
func TestDecide_NoOtherThanTheDesignatedInitNode(t *testing.T) {
	w := newWorld(k3sVersion)
	w.cp.Labels = map[string]string{"rke.cattle.io/init-node-machine-id": "abc"}
	w.add("a", allRoles)
	b := w.add("b", allRoles)
	b.m.Labels["rke.cattle.io/machine-id"] = "abc"
	b.m.Provisioned = true // its addresses are not known yet
	w.run(t)
	if !b.m.Marks.InitNode || b.hasPlan() {
		t.Fatalf("b is marked %v, has a plan %v", b.m.Marks.InitNode, b.hasPlan())
	}
	b.m.InfrastructureReady = false
	if d := w.run(t); w.machines["a"].m.Marks.InitNode || w.machines["a"].hasPlan() ||
		d.Wait.Reason != ReasonDesignatedAbsent {
		t.Errorf("a is marked %v, has a plan %v; wait %+v", w.machines["a"].m.Marks.InitNode, w.machines["a"].hasPlan(),
			d.Wait)
	}

	w = ready(t, map[string]string{"a": allRoles, "b": allRoles, "c": allRoles})
	w.machines["b"].m.Labels["rke.cattle.io/machine-id"] = "abc"
	w.cp.Labels = map[string]string{"rke.cattle.io/init-node-machine-id": "abc"}
	d := w.run(t)
	if status, message := w.condition(ConditionConfigurationUnderstood); d.Wait != nil ||
		!w.machines["a"].m.Marks.InitNode || status != "False" ||
		!strings.Contains(message,
			"metadata.labels[rke.cattle.io/init-node-machine-id]: The cluster was started by machine a") {
		t.Errorf("wait %+v, condition %s %s", d.Wait, status, message)
	}
}

// A ticket says that a machine gets the plan to start the cluster. Caches may show the ticket before the plan, and a
// machine that is designated then would start a second cluster.
func TestDecide_ADesignationAfterTheTicketComesTooLate(t *testing.T) {
	w := newWorld(k3sVersion)
	w.add("a", allRoles)
	w.add("b", allRoles).m.Labels["rke.cattle.io/machine-id"] = "abc"
	var d Decision
	stale := w.snapshot(t)
	for range 10 {
		stale = w.snapshot(t)
		if d = Decide(stale); d.Ticket != nil {
			break
		}
		w.apply(d)
	}
	if diff := cmp.Diff([]string{"a"}, deliveries(d)); diff != "" {
		t.Fatalf("plans are delivered (-want +got):\n%s", diff)
	}
	w.apply(d)
	stale.ControlPlane = w.cp
	stale.ControlPlane.Labels = map[string]string{"rke.cattle.io/init-node-machine-id": "abc"}
	if diff := cmp.Diff([]string{"a"}, deliveries(Decide(stale))); diff != "" {
		t.Errorf("seen with old caches, plans are delivered (-want +got):\n%s", diff)
	}
	w.cp.Labels = stale.ControlPlane.Labels
	w.bringUp(t)
	if !w.machines["a"].m.Marks.InitNode || w.machines["b"].m.Marks.InitNode {
		t.Error("the init node is not the machine that started the cluster")
	}
}
