package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// toldOf is an outlook in one text.
func toldOf(list []OperationOutlook) string {
	var out []string
	for _, o := range list {
		out = append(out, fmt.Sprintf("%s running=%v problem=%q stuck=%q", o.Class, o.Running, o.Problem, o.Stuck))
		for _, stage := range o.Stages {
			out = append(out, strings.TrimPrefix(stage.Name, "etcd restore: ")+": "+strings.Join(stage.Machines, " "))
		}
	}
	return strings.Join(out, "; ")
}

// Until a restore has stopped the first machine, a restore that cannot work stops none. After that, the outlook is the
// rest of the restore, whatever happened to the snapshot.
func TestOutlook_RestoreUnderWay(t *testing.T) {
	roles := map[string]string{"s": "etcd,control-plane", "w": "worker"}
	w := ready(t, roles)
	w.snapshots = []ETCDSnapshot{{Name: "x", File: "f", MachineUID: "uid-s"}}
	w.cp.Spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "x", Generation: 1}
	look := func(edits ...func(*Snapshot)) string {
		s := w.snapshot(t)
		for _, edit := range edits {
			edit(&s)
		}
		return toldOf(operationsOf(&s))
	}
	lost := func(s *Snapshot) { s.Snapshots = []ETCDSnapshot{{Name: "x", Failed: true, Message: "disk full"}} }
	const failed = "snapshot x was not taken: disk full"
	before := map[string]string{
		"with the snapshot":    `Restart running=false problem="" stuck=""; stop: s w; restore and start: s; start: w`,
		"without the snapshot": `Restart running=false problem="` + failed + `" stuck=""`,
	}
	begun := map[string]string{
		"with the snapshot":    strings.Replace(before["with the snapshot"], "false", "true", 1),
		"without the snapshot": strings.Replace(before["without the snapshot"], "false", "true", 1),
	}
	for phase, want := range map[rkev1.ETCDSnapshotPhase]map[string]string{
		"":                             before,
		rkev1.ETCDSnapshotPhaseStarted: begun,
		rkev1.ETCDSnapshotPhaseShutdown: {
			"with the snapshot":    `Restart running=true problem="" stuck=""; stop: s w; restore and start: s; start: w`,
			"without the snapshot": `Restart running=true problem="" stuck="` + failed + `"; stop: s w`,
		},
		rkev1.ETCDSnapshotPhaseRestore: {
			"with the snapshot":    `Restart running=true problem="" stuck=""; stop: s w; restore and start: s; start: w`,
			"without the snapshot": `Restart running=true problem="" stuck="` + failed + `"; stop: s w`,
		},
		rkev1.ETCDSnapshotPhasePostRestoreNodeCleanup: {
			"with the snapshot":    `InPlace running=true problem="" stuck=""; clean up: s`,
			"without the snapshot": `InPlace running=true problem="" stuck=""; clean up: s`,
		},
		rkev1.ETCDSnapshotPhaseRestartCluster: {
			"with the snapshot":    `Restart running=true problem="" stuck=""`,
			"without the snapshot": `Restart running=true problem="" stuck=""`,
		},
	} {
		at := func(s *Snapshot) {
			if phase != "" {
				s.ControlPlane.Status.ETCDSnapshotRestore, s.ControlPlane.Status.ETCDSnapshotRestorePhase =
					w.cp.Spec.ETCDSnapshotRestore, phase
				s.ControlPlane.Status.Operations = []rkev1.OperationRecord{{Name: kindRestore.Record, Attempt: 1,
					State: rkev1.OperationStateRunning}}
			}
		}
		got := map[string]string{"with the snapshot": look(at), "without the snapshot": look(at, lost)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("phase %q (-want +got):\n%s", phase, diff)
		}
	}

	// The planner itself goes through it: stopped machines must start, even if the snapshot is gone after the restore
	// of its data.
	for w.cp.Status.ETCDSnapshotRestorePhase != rkev1.ETCDSnapshotPhaseShutdown {
		w.pass(t)
	}
	w.pass(t) // the machines get the plan to stop
	if got, want := look(), `Restart running=true problem="" stuck=""; restore and start: s; start: w`; got != want {
		t.Errorf("while machines stop: %s, want %s", got, want)
	}
	if got, want := look(lost), `Restart running=true problem="" stuck="`+failed+`"`; got != want {
		t.Errorf("while machines stop, without the snapshot: %s, want %s", got, want)
	}
}
