package nodeplan_test

import (
	"testing"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// saying is a plan that differs from other plans only in a text.
func saying(t *testing.T, text string) []byte {
	t.Helper()
	data, err := nodeplan.Encode(plan.NodePlan{Error: text})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestDeliver_APlanThatFailedByStateIsNotApplied checks that a repeated delivery of a failed plan counts as new,
// although an agent in state mode records the failed plan as applied (W33).
func TestDeliver_APlanThatFailedByStateIsNotApplied(t *testing.T) {
	t.Parallel()
	failed, other := saying(t, "this one"), saying(t, "another plan")
	for name, tc := range map[string]struct {
		applied, deliver []byte
		wantApplied      bool
	}{
		"the same plan again, copied as applied by another server": {failed, failed, false},
		"the same plan again, after another plan was applied":      {other, failed, true},
		"another plan": {failed, other, true},
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
			if state.Failed || (state.AppliedPlan != nil) != tc.wantApplied ||
				string(data[nodeplan.KeyAppliedChecksum]) == state.Checksum {
				t.Errorf("failed %v, applied plan %v, applied checksum %s", state.Failed, state.AppliedPlan,
					data[nodeplan.KeyAppliedChecksum])
			}
			if state.InSync {
				t.Error("a plan that never ran is in sync")
			}
		})
	}
}

// TestDeliver_AnEarlierPlanIsNotYetApplied checks that a reverted change is carried out like any other: the node may
// have applied part of the plan in between.
func TestDeliver_AnEarlierPlanIsNotYetApplied(t *testing.T) {
	t.Parallel()
	first, second := saying(t, "first"), saying(t, "second")
	for name, tc := range map[string]struct {
		appliedChecksum string
		replaced        []byte
		wantInSync      bool
	}{
		"the plan in between failed or runs": {nodeplan.Checksum(first), second,
			false},
		"the agent restarted, and the plan in between failed": {"", second, false},
		"the plan in between was applied, and the server has not seen it yet": {nodeplan.Checksum(second), second,
			false},
		"no plan in between": {nodeplan.Checksum(first), first, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := map[string][]byte{
				nodeplan.KeyPlan: tc.replaced, nodeplan.KeyAppliedPlan: first,
				nodeplan.KeyAppliedChecksum: []byte(tc.appliedChecksum),
				nodeplan.KeyFailedChecksum:  []byte(nodeplan.Checksum(second)), nodeplan.KeyFailureCount: []byte("3"),
			}
			data, err := nodeplan.Deliver(found, nodeplan.Delivery{Plan: first, MaxFailures: nodeplan.NoLimit})
			if err != nil {
				t.Fatal(err)
			}
			state, err := nodeplan.Parse("ns/name", data)
			if err != nil {
				t.Fatal(err)
			}
			if applied := string(data[nodeplan.KeyAppliedChecksum]) == state.Checksum; state.InSync != tc.wantInSync ||
				applied != tc.wantInSync {
				t.Errorf("in sync %v, applied by its checksum %v; want %v", state.InSync, applied, tc.wantInSync)
			}
			if state.AppliedPlan == nil || state.Failed {
				t.Errorf("applied plan %v, failed %v; want the last applied plan and no failure of another plan",
					state.AppliedPlan, state.Failed)
			}
			if string(found[nodeplan.KeyAppliedChecksum]) != tc.appliedChecksum {
				t.Error("the given data was changed")
			}
		})
	}
}
