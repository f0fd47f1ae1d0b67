package planner

import (
	"strings"
	"testing"
)

// The choice is the user's also while the machine cannot start for a moment; and once another one has started the cluster, that is said.
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
	if d := w.run(t); w.machines["a"].m.Marks.InitNode || w.machines["a"].hasPlan() || d.Wait.Reason != ReasonDesignatedAbsent {
		t.Errorf("a is marked %v, has a plan %v; wait %+v", w.machines["a"].m.Marks.InitNode, w.machines["a"].hasPlan(), d.Wait)
	}

	w = ready(t, map[string]string{"a": allRoles, "b": allRoles, "c": allRoles})
	w.machines["b"].m.Labels["rke.cattle.io/machine-id"] = "abc"
	w.cp.Labels = map[string]string{"rke.cattle.io/init-node-machine-id": "abc"}
	d := w.run(t)
	if status, message := w.condition(ConditionConfigurationUnderstood); d.Wait != nil || !w.machines["a"].m.Marks.InitNode || status != "False" ||
		!strings.Contains(message, "metadata.labels[rke.cattle.io/init-node-machine-id]: The cluster was started by machine a") {
		t.Errorf("wait %+v, condition %s %s", d.Wait, status, message)
	}
}
