package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/ownwrites"
)

// A status in which only texts change waits after a write. All that programs wait for, and the planner's memory, does
// not.
func TestWriteStatus_TextsWait(t *testing.T) {
	for name, tc := range map[string]struct {
		edit     func(*rkev1.RKEControlPlaneStatus)
		wantWait bool
	}{
		"a message": {edit: func(s *rkev1.RKEControlPlaneStatus) {
			s.Conditions[0].Message = "waiting for machine b"
		}, wantWait: true},
		"a reason": {edit: func(s *rkev1.RKEControlPlaneStatus) {
			s.Conditions[0].Reason = "EtcdQuorum"
		}, wantWait: true},
		"a new condition that is Unknown": {edit: func(s *rkev1.RKEControlPlaneStatus) {
			s.Conditions = append(s.Conditions, rkev1.GenericCondition{Type: "Updated", Status: "Unknown"})
		}, wantWait: true},
		"a status": {edit: func(s *rkev1.RKEControlPlaneStatus) { s.Conditions[0].Status = "False" }},
		"a pause": {edit: func(s *rkev1.RKEControlPlaneStatus) {
			s.Conditions[0].Message = planner.PausedMessage
		}},
		"a ticket": {edit: func(s *rkev1.RKEControlPlaneStatus) {
			s.Ticket = &rkev1.DisruptionTicket{Step: "etcd"}
		}},
		"generation":  {edit: func(s *rkev1.RKEControlPlaneStatus) { s.ObservedGeneration++ }},
		"initialized": {edit: func(s *rkev1.RKEControlPlaneStatus) { s.Initialized = true }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakes(t)
			f.cp.Status.Conditions = []rkev1.GenericCondition{{Type: "Ready", Status: "Unknown", Reason: "Waiting",
				Message: "waiting for machine a"}}
			h := newHandler(f.deps)
			older := f.cp.DeepCopy()
			older.ResourceVersion = "0"
			h.statuses.Wrote(older, f.cp, h.Now())
			stored := f.cp.Status.DeepCopy()
			status := *stored.DeepCopy()
			tc.edit(&status)
			if _, err := h.writeStatus(f.cp, status); err != nil {
				t.Fatal(err)
			}
			if waits := len(f.writes) == 0; waits != tc.wantWait {
				t.Errorf("writes %v", f.writes)
			}
			if tc.wantWait {
				if diff := cmp.Diff(ownwrites.TextsEvery, f.enqueued[len(f.enqueued)-1]); diff != "" {
					t.Errorf("next pass (-want +got):\n%s", diff)
				}
				if !conditions.SameStatuses(stored.Conditions, f.cp.Status.Conditions) {
					t.Error("the cached status has changed")
				}
			}
		})
	}
}
