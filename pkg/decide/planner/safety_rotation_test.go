package planner

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// A rotation restarts etcd members like a rollout, and waits for members that are off or cannot be seen.
func TestDecide_RotationsWaitForMembersThatAreOffOrUnseen(t *testing.T) {
	for name, tc := range map[string]struct {
		given     func(w *world)
		wantTrace string
		wantWait  string
		wantPlan  bool
	}{
		"all are there": {func(*world) {}, "", "", true},
		"one is off": {func(w *world) { w.off(w.machines["s3"]) },
			"it waits for the etcd members of machines whose nodes are unreachable: s3", "", false},
		"the connection is down": {func(w *world) { w.machines["s3"].m.NodeUnknown = true },
			"it waits for the connection to the cluster", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			tc.given(w)
			w.edit(func(s *rkev1.RKEControlPlaneSpec) {
				s.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
			})
			d := w.run(t)
			if w.machines["s1"].hasPlan() != tc.wantPlan {
				t.Errorf("s1 is at its rotation: %v; wait %+v", w.machines["s1"].hasPlan(), d.Wait)
			}
			if tc.wantTrace != "" {
				if status, message := w.condition(ConditionCertificatesRotated); status != "Unknown" ||
					!strings.Contains(message, tc.wantTrace) {
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

// A rotation requires the node's proof before it stops an etcd member, like a rollout, and each machine gets its plan
// once. Machines without other members, or without etcd, have nothing to prove. A snapshot stops nothing.
func TestDecide_RotationsAreProvenOnTheNode(t *testing.T) {
	three := map[string]string{"s1": "etcd,control-plane", "s2": "etcd,control-plane", "s3": "etcd,control-plane",
		"w": "worker"}
	for name, tc := range map[string]struct {
		roles map[string]string
		ask   func(*rkev1.RKEControlPlaneSpec)
		want  map[string]bool
	}{
		"certificates": {three, askCertificates(1), map[string]bool{"s1": true, "s2": true, "s3": true,
			"w": false}},
		"keys":       {three, askKeys(1), map[string]bool{"s1": true, "s2": true, "s3": true}},
		"a snapshot": {three, askSnapshot(1), map[string]bool{"s1": false, "s2": false, "s3": false}},
		"the only member": {map[string]string{"s": allRoles, "w": "worker"}, askCertificates(1),
			map[string]bool{"s": false, "w": false}},
		"a control plane only": {map[string]string{"s": "etcd,control-plane", "c": "control-plane", "w": "worker"},
			askCertificates(1), map[string]bool{"s": false, "c": false, "w": false}},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, tc.roles)
			d := newDownstream(w)
			w.edit(tc.ask)
			proven, plans := map[string]bool{}, map[string]map[string]bool{}
			for range 40 {
				w.run(t)
				for name, h := range w.machines {
					operation := render.OperationOf(h.state().Plan)
					if operation == "" {
						continue
					}
					if plans[name] == nil {
						plans[name] = map[string]bool{}
					}
					plans[name][h.state().Checksum] = true
					proven[name] = proven[name] || render.HasEtcdProof(h.state().Plan)
				}
				for _, name := range w.names() {
					d.apply(name, fine, false)
					w.machines[name].probes(true)
				}
			}
			if diff := cmp.Diff(tc.want, proven); diff != "" {
				t.Errorf("who has to prove (-want +got):\n%s", diff)
			}
			for machine, got := range plans {
				if len(got) > 1 && name != "keys" { // keys have several steps
					t.Errorf("%s got %d plans of one operation", machine, len(got))
				}
			}
		})
	}
}

// A node that cannot give its proof is not stopped. The rotation fails, says why, and goes on when an operator skips
// the proof in time.
func TestDecide_ARotationThatANodeRefuses(t *testing.T) {
	for name, waived := range map[string]bool{"for good": false, "and an operator does without the proof": true} {
		t.Run(name, func(t *testing.T) {
			w := servers(t, map[string]string{"w": "worker"})
			w.edit(askCertificates(1))
			w.run(t)
			w.machines["s1"].refusePlan(t, true)
			if waived {
				w.machines["s1"].m.SkipProof = true
				w.run(t)
				if have := w.machines["s1"].state().Plan; render.HasEtcdProof(have) ||
					render.OperationOf(have) != render.OperationCertificates {
					t.Error("the plan is not delivered without the proof")
				}
				return
			}
			w.machines["s1"].data[nodeplan.KeyFailureCount] = []byte(strconv.Itoa(restartAttempts))
			w.run(t)
			record := w.operation(kindCertificates)
			want := "rotate: s1: failure while applying plan, instruction etcd-healthy, exit code 1 (4 attempts or " +
				"more): etcd on this node is connected to 1 of 2 other members"
			if record.State != rkev1.OperationStateFailed || record.Message != want+msgRefused {
				t.Errorf("record is %+v", record)
			}
			if w.machines["s2"].hasPlan() {
				t.Error("the rotation goes on to s2")
			}
		})
	}
}
