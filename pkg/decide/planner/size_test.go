package planner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// The plan of a node does not grow with the number of other nodes.
func TestPlanSize_IsThatOfOneMachine(t *testing.T) {
	sizes := map[int]map[string]int{}
	for _, machines := range []int{4, 300} {
		w := fleetOf(t, machines)
		sizes[machines] = map[string]int{}
		for _, name := range []string{"s0", "s1", "w0003"} {
			h := w.machines[name]
			sizes[machines][name] = len(h.data["plan"]) + len(h.data["appliedPlan"]) + len(h.evidence)
		}
	}
	// Addresses of machines differ in length, and join URLs with them.
	for name, small := range sizes[4] {
		if large := sizes[300][name]; large-small > 16 || small-large > 16 {
			t.Errorf("%s: %d bytes among 4 machines, %d among 300", name, small, large)
		}
	}
}

// A plan above the budget is refused for its machine, with the names of the fields that make it large. All others go
// on.
func TestPlanSize_ALargePlanIsRefusedByName(t *testing.T) {
	w := settledWorld(t)
	before := w.plans()
	large := strings.Repeat("x", MaxPlanSize)
	w.objects = append(w.objects, Object{Kind: "Secret", Namespace: "fleet-default", Name: "large",
		Data:        map[string][]byte{"k": []byte(large)},
		Annotations: map[string]string{"rke.cattle.io/object-authorized-for-clusters": "demo"}})
	w.machines["w1"].m.Labels["large"] = "true"
	w.edit(func(spec *rkev1.RKEControlPlaneSpec) {
		spec.ProvisionGeneration++
		spec.MachineSelectorFiles = append(spec.MachineSelectorFiles, rkev1.RKEProvisioningFiles{
			MachineLabelSelector: selector("large", "true"),
			FileSources: []rkev1.ProvisioningFileSource{{Secret: rkev1.K8sObjectFileSource{
				Name: "large", Items: []rkev1.KeyToPath{{Key: "k", Path: "/etc/large"}},
			}}},
		})
	})
	var d Decision
	for range 10 {
		d = w.run(t)
		for _, name := range w.names() {
			w.machines[name].applyPlan()
			w.machines[name].probes(true)
		}
	}
	const want = "configuring worker node(s) w1: the plan has 536 KiB, at most 400 KiB are delivered; the largest " +
		"parts are " +
		"spec.rkeConfig.machineSelectorFiles[1].fileSources[0].secret.items[0] (533 KiB)"
	if d.Wait == nil || d.Wait.Reason != ReasonPlanTooLarge || !d.Wait.Failed || d.Wait.Message != want {
		t.Errorf("wait %+v\nwant %s", d.Wait, want)
	}
	if strings.Contains(d.Wait.Message, large[:100]) {
		t.Error("the message holds the content")
	}
	changed := map[string]bool{}
	for name, bytes := range w.plans() {
		changed[name] = bytes != before[name]
	}
	if diff := cmp.Diff(map[string]bool{"s": true, "w1": false, "w2": true}, changed); diff != "" {
		t.Errorf("changed plans (-want +got):\n%s", diff)
	}
}
