package planner

import (
	"strings"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// A rotation restarts members of etcd like a roll-out does, and waits for those that are off, and for those that nobody can see.
func TestDecide_RotationsWaitForMembersThatAreOffOrUnseen(t *testing.T) {
	for name, tc := range map[string]struct {
		given     func(w *world)
		wantTrace string
		wantWait  string
		wantPlan  bool
	}{
		"all are there":          {func(*world) {}, "", "", true},
		"one is off":             {func(w *world) { w.off(w.machines["s3"]) }, "it waits for the etcd members of machines whose nodes are unreachable: s3", "", false},
		"the connection is down": {func(w *world) { w.machines["s3"].m.NodeUnknown = true }, "it waits for the connection to the cluster", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			tc.given(w)
			w.edit(func(s *rkev1.RKEControlPlaneSpec) { s.RotateCertificates = &rkev1.RotateCertificates{Generation: 1} })
			d := w.run(t)
			if w.machines["s1"].hasPlan() != tc.wantPlan {
				t.Errorf("s1 is at its rotation: %v; wait %+v", w.machines["s1"].hasPlan(), d.Wait)
			}
			if tc.wantTrace != "" {
				if status, message := w.condition(ConditionCertificatesRotated); status != "Unknown" || !strings.Contains(message, tc.wantTrace) {
					t.Errorf("the condition is %s %q", status, message)
				}
				if w.cluster.Paused || w.cp.Status.CertificateRotationGeneration != 0 {
					t.Error("the rotation has begun")
				}
				for _, line := range d.Trace {
					if line.Step == "rotate-certificates" && strings.Contains(line.Why, tc.wantTrace) {
						return
					}
				}
				t.Errorf("the trace is %+v", d.Trace)
				return
			}
			if d.Wait == nil || !tc.wantPlan && !strings.Contains(d.Wait.Message, tc.wantWait) {
				t.Errorf("wait is %+v", d.Wait)
			}
		})
	}
}
