package planner

import (
	"strings"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// askForOlder requests a restore that brings the version of its snapshot with it.
func askForOlder(name string, generation int) func(*rkev1.RKEControlPlaneSpec) {
	return func(spec *rkev1.RKEControlPlaneSpec) {
		spec.KubernetesVersion = olderVersion(spec.KubernetesVersion)
		spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: name, Generation: generation,
			RestoreRKEConfig: rkev1.RestoreModeKubernetesVersion}
	}
}

// readyWithOlder is a working cluster with a snapshot of an older version, on s1.
func readyWithOlder(t *testing.T) *world {
	t.Helper()
	w := ready(t, three)
	w.snapshots = []ETCDSnapshot{{Name: "x", File: "f", MachineUID: "uid-s1",
		KubernetesVersion: olderVersion(w.cp.Spec.KubernetesVersion)}}
	return w
}

// finishUpgrade lets all agents and kubelets work until the operation has ended and the cluster is in order.
func finishUpgrade(t *testing.T, w *world, d *downstream) {
	t.Helper()
	for range 60 {
		if w.run(t).Wait == nil {
			return
		}
		d.all(w.names()...)
		for _, name := range w.names() {
			if state := w.machines[name].state(); state.InSync && d.node(name).up {
				w.machines[name].joinCluster(w.cp.Spec.KubernetesVersion)
			}
		}
		for _, wrong := range d.wrong {
			t.Fatal(wrong)
		}
	}
	status, message := w.condition("Ready")
	t.Fatalf("the cluster never gets in order: %s, %s", status, message)
}

// A restore with an older version stops all machines before one of them gets the version, and ends with it.
func TestDecide_ARestoredVersionComesAfterTheStop(t *testing.T) {
	w := readyWithOlder(t)
	d := newDownstream(w)
	w.edit(askForOlder("x", 1))
	for range 3 {
		for _, e := range w.pass(t).Effects {
			if e, ok := e.(DeliverPlan); ok && !w.machines[e.Machine].m.Deleting {
				if state := w.machines[e.Machine].state(); installs(state.Plan, "v1.35.1+rke2r1") {
					t.Fatalf("%s gets the version while it runs", e.Machine)
				}
			}
		}
	}
	finishUpgrade(t, w, d)
	for _, name := range w.names() {
		if !installs(w.machines[name].state().Plan, "v1.35.1+rke2r1") {
			t.Errorf("%s does not have the restored version", name)
		}
	}
}

// A restore that cannot work keeps the restored version from all machines, until the user decides.
func TestDecide_ARestoredVersionIsHeldBack(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(w *world)
		want string
	}{
		"the host of the snapshot is gone": {func(w *world) { w.snapshots[0].MachineUID = "gone" },
			"the machine that holds snapshot x cannot start etcd or is gone"},
		"the spec was changed since": {func(w *world) { w.snapshots[0].ConfigurationProblem = "it was changed" },
			"it was changed"},
		"the snapshot was deleted since": {func(w *world) {
			w.snapshots = nil
			delete(w.machines, "s2")
			delete(w.machines, "s3") // the name could be that of a file
		}, "snapshot x, whose configuration was restored, does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			w := readyWithOlder(t)
			tc.edit(w)
			w.edit(askForOlder("x", 1))
			d := w.run(t)
			if d.Wait == nil || !strings.Contains(d.Wait.Message, tc.want) ||
				!strings.Contains(d.Wait.Message, hintConfiguration) {
				t.Errorf("waits for %+v, want %q and the advice", d.Wait, tc.want)
			}
			for _, name := range w.names() {
				if w.machines[name].hasPlan() || installs(w.machines[name].state().Plan, "v1.35.1+rke2r1") {
					t.Errorf("%s got a plan", name)
				}
			}
			if w.cp.Status.ETCDSnapshotRestorePhase != rkev1.ETCDSnapshotPhaseFailed {
				t.Errorf("phase is %s", w.cp.Status.ETCDSnapshotRestorePhase)
			}
			w.edit(func(spec *rkev1.RKEControlPlaneSpec) {
				spec.ETCDSnapshotRestore, spec.KubernetesVersion = nil, rke2Version
			})
			if w.bringUp(t); len(w.machines) == 3 {
				if status, message := w.condition("Ready"); status != "True" {
					t.Errorf("after the withdrawal, Ready is %s: %s", status, message)
				}
			}
		})
	}
}

// A restored version waits with its request for another operation, which gives no machine the version.
func TestDecide_ARestoredVersionWaitsForOtherOperations(t *testing.T) {
	for name, ask := range map[string]func(*rkev1.RKEControlPlaneSpec){
		"a snapshot": askSnapshot(1),
		"a rotation": func(spec *rkev1.RKEControlPlaneSpec) {
			spec.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
		},
	} {
		for _, withdrawn := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := readyWithOlder(t)
				d := newDownstream(w)
				w.edit(ask)
				w.run(t)
				w.edit(askForOlder("x", 1))
				for range 60 {
					w.run(t)
					if w.cp.Status.ETCDSnapshotRestorePhase != "" {
						break
					}
					if withdrawn {
						w.edit(func(spec *rkev1.RKEControlPlaneSpec) {
							spec.RotateCertificates, spec.ETCDSnapshotCreate = nil, nil
						})
						w.pass(t)
					}
					for _, name := range w.names() {
						if installs(w.machines[name].state().Plan, "v1.35.1+rke2r1") {
							t.Fatalf("%s gets the restored version before the restore", name)
						}
					}
					d.all(w.names()...)
				}
				finishUpgrade(t, w, d)
				if record := w.operation(kindRestore); record.State != rkev1.OperationStateSucceeded {
					t.Errorf("the restore is %+v", record)
				}
			})
		}
	}
}

func TestDecide_ASnapshotOfANewerMinorVersionIsRefused(t *testing.T) {
	for _, tc := range []struct {
		taken, now string
		refused    bool
	}{
		{"v1.37.0+rke2r1", "v1.36.2+rke2r1", true}, {"v2.0.0+rke2r1", "v1.36.2+rke2r1", true},
		{"v1.36.9+rke2r1", "v1.36.2+rke2r1", false}, {"v1.35.0+rke2r1", "v1.36.2+rke2r1", false},
		{"?", "v1.36.2+rke2r1", false}, {"", "v1.36.2+rke2r1", false}, {"v1.36.2+rke2r1", "?", false},
	} {
		if got := isNewer(tc.taken, tc.now); got != tc.refused {
			t.Errorf("from %q to %q: %v", tc.taken, tc.now, got)
		}
	}
}
