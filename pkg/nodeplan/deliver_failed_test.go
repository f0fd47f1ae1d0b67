package nodeplan_test

import (
	"testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/nodeplan"
)

// W-33: an agent in state mode notes a plan that failed as applied. When the same bytes are delivered again, they count as new.
func TestDeliver_APlanThatFailedByStateIsNotApplied(t *testing.T) {
	t.Parallel()
	encode := func(message string) []byte {
		data, err := nodeplan.Encode(plan.NodePlan{Error: message})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	failed, other := encode("this one"), encode("another one")
	for name, tc := range map[string]struct {
		applied, deliver []byte
		wantApplied      bool
	}{
		"the same again, copied as applied by another server": {failed, failed, false},
		"the same again, after another one was applied":       {other, failed, true},
		"another one": {failed, other, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := nodeplan.Deliver(map[string][]byte{
				nodeplan.KeyPlan: failed, nodeplan.KeyPlanState: []byte(nodeplan.PhaseFailed),
				nodeplan.KeyAppliedChecksum: []byte(nodeplan.Checksum(failed)), nodeplan.KeyAppliedPlan: tc.applied,
			}, nodeplan.Delivery{Plan: tc.deliver, MaxFailures: nodeplan.NoLimit})
			if err != nil {
				t.Fatal(err)
			}
			state, err := nodeplan.Parse("ns/name", data)
			if err != nil {
				t.Fatal(err)
			}
			if state.Failed || (state.AppliedPlan != nil) != tc.wantApplied || string(data[nodeplan.KeyAppliedChecksum]) == state.Checksum {
				t.Errorf("failed %v, applied plan %v, applied checksum %s", state.Failed, state.AppliedPlan, data[nodeplan.KeyAppliedChecksum])
			}
			if state.InSync {
				t.Error("a plan that nobody has run is in sync")
			}
		})
	}
}
