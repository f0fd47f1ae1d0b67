package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

func (w *world) operation(k *kind) rkev1.OperationRecord { return k.recordIn(&w.cp.Status) }

func TestDecide_RestoreThatCannotWorkTouchesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		snapshot ETCDSnapshot
		asked    string
		roles    map[string]string
		edit     func(w *world)
		want     string
	}{
		"another cluster's": {snapshot: ETCDSnapshot{Name: "x", Cluster: "other", File: "f"},
			want: "snapshot x is of cluster other"},
		"a failed one": {snapshot: ETCDSnapshot{Name: "x", Failed: true, Message: "disk full"},
			want: "snapshot x was not taken: disk full"},
		"one without a file": {snapshot: ETCDSnapshot{Name: "x"}, want: "snapshot x names no file"},
		"one that is too old": {snapshot: ETCDSnapshot{Name: "x", File: "f", KubernetesVersion: "v1.24.9+rke2r1"},
			want: "snapshot x of version v1.24.9+rke2r1 cannot be restored to version v1.36.2+rke2r1"},
		"one of a lost host": {snapshot: ETCDSnapshot{Name: "x", File: "f", MachineUID: "gone"},
			want: "the machine that holds snapshot x cannot start etcd or is gone"},
		"one of a failed host": {snapshot: ETCDSnapshot{Name: "x", File: "f", MachineUID: "uid-s"},
			edit: func(w *world) {
				w.machines["s"].m.Phase = "Failed"
			}, want: "the machine that holds snapshot x cannot start etcd or is gone"},
		"an unknown credential": {
			snapshot: ETCDSnapshot{Name: "x", File: "f",
				S3: &rkev1.ETCDSnapshotS3{Bucket: "b", CloudCredentialName: "no"}},
			want: "s: the snapshot's storage: spec.rkeConfig.etcd.s3.cloudCredentialName",
		},
		"a file name with several machines": {
			asked: "file", roles: map[string]string{"s": "etcd,control-plane", "t": "etcd,control-plane",
				"w": "worker"},
			want: "snapshot file is not known; to restore from a file of that name there must be exactly one " +
				"machine with etcd",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.roles == nil {
				tc.roles, tc.asked = map[string]string{"s": "etcd,control-plane", "w": "worker"}, "x"
			}
			w := ready(t, tc.roles)
			w.snapshots = []ETCDSnapshot{tc.snapshot}
			if tc.edit != nil {
				tc.edit(w)
			}
			w.cp.Spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: tc.asked, Generation: 1}
			for range 4 {
				if got := deliveries(w.pass(t)); len(got) > 0 {
					t.Fatalf("%v get plans", got)
				}
			}
			if w.cp.Status.ETCDSnapshotRestorePhase != rkev1.ETCDSnapshotPhaseFailed ||
				!*w.cp.Status.Initialization.ControlPlaneInitialized {
				t.Errorf("phase is %s, status %+v", w.cp.Status.ETCDSnapshotRestorePhase, w.cp.Status.Initialization)
			}
			status, message := w.condition(ConditionSnapshotRestored)
			if status != "False" || !strings.HasPrefix(message, tc.want) {
				t.Errorf("condition is %s %q, want %q", status, message, tc.want)
			}
		})
	}
}

func TestRestorable(t *testing.T) {
	for _, tc := range []struct {
		taken, current string
		want           bool
	}{
		{"v1.24.17+rke2r1", "v1.36.2+rke2r1", false},
		{"v1.24.17+rke2r1", "v1.24.17+rke2r1", true},
		{"v1.25.0+k3s1", "v1.36.2+k3s1", true},
		{"v1.36.2+k3s1", "v1.24.0+k3s1", true},
		{"", "v1.36.2+k3s1", true},
	} {
		if got := canRestore(tc.taken, tc.current); got != tc.want {
			t.Errorf("from %q to %q: %v", tc.taken, tc.current, got)
		}
	}
}

// Both limits are the same number: the server reports the failure exactly when the agent gives up (W22).
func TestDecide_LimitsOfOperationPlans(t *testing.T) {
	w := small(t)
	w.cp.Spec.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
	w.run(t)
	state := w.machines["s"].state()
	if state.MaxFailures != commandAttempts || state.FailureThreshold != commandAttempts {
		t.Errorf("limits are %d and %d", state.MaxFailures, state.FailureThreshold)
	}
}

// Upstream agents keep counting failures from one plan to the next, and Drover's does not. An operation has its
// attempts with either, whatever failed before.
func TestDecide_FormerFailuresDoNotCountAgainstOperations(t *testing.T) {
	for name, ask := range map[string]edit{"snapshot": askSnapshot(1), "certificates": askCertificates(1)} {
		for _, countsOn := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/counts on=%v", name, countsOn), func(t *testing.T) {
				w := small(t)
				d := newDownstream(w)
				d.countsOn = countsOn
				w.edit(restartAll)
				w.run(t)
				for range 7 {
					d.apply("s", fate{failAt: render.InstallInstruction, dieBefore: -1}, false)
				}
				w.edit(ask)
				w.run(t)
				k, tries := kindCreate, commandAttempts
				if name == "certificates" {
					k, tries = kindCertificates, restartAttempts
				}
				for tried := 1; tried <= tries; tried++ {
					d.apply("s", fate{failAt: render.InstallInstruction, dieBefore: -1}, false)
					w.run(t)
					if record := w.operation(k); (record.State == rkev1.OperationStateFailed) != (tried == tries) {
						t.Fatalf("after %d failures of %d the operation is %+v", tried, tries, record)
					}
				}
			})
		}
	}
}

// Every wait of an operation has a deadline, after which the operation fails and names the machine that it waited for.
// (docs/invariants.md#weaknesses, W29.)
func TestDecide_OperationsEndInTime(t *testing.T) {
	w := small(t)
	w.cp.Spec.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
	d := w.run(t)
	if d.Wait == nil || d.Wait.After <= 0 || d.Wait.After > stepDeadline {
		t.Fatalf("wait is %+v", d.Wait)
	}
	w.now = w.now.Add(d.Wait.After - 2*time.Second)
	if d = w.pass(t); w.operation(kindCertificates).State != rkev1.OperationStateRunning {
		t.Fatalf("ends early: %+v", d.Wait)
	}
	w.now = w.now.Add(2 * time.Second)
	if d = w.pass(t); !d.Wait.Failed || len(deliveries(d)) > 0 {
		t.Fatalf("decision is %+v", d)
	}
	w.run(t)
	record := w.operation(kindCertificates)
	want := "rotate: s: waiting for plan to be applied for 20m0s"
	if record.State != rkev1.OperationStateFailed || record.Message != want || w.cluster.Paused {
		t.Errorf("record is %+v, paused %v", record, w.cluster.Paused)
	}
	if status, message := w.condition(ConditionCertificatesRotated); status != "False" || message != want {
		t.Errorf("condition is %s %q", status, message)
	}
	before := w.operation(kindCertificates).Attempt
	for range 5 {
		w.pass(t)
	}
	if w.operation(kindCertificates).Attempt != before {
		t.Error("a rotation that has failed begins again by itself")
	}
}

// A pause with the note of an operation always ends, whatever holds up the cluster. A pause without the note never
// does. (docs/invariants.md#weaknesses, W23.)
func TestDecide_PausesAreOwned(t *testing.T) {
	for name, edit := range map[string]func(w *world){
		"after the operation":     func(*world) {},
		"in a deleting cluster":   func(w *world) { w.cluster.Deleting = true },
		"with a role missing":     func(w *world) { w.machines["w"].m.Deleting = true },
		"with an invalid version": func(w *world) { w.cp.Spec.KubernetesVersion = "x" },
		"with a withdrawn request": func(w *world) {
			w.cp.Status.Operations = []rkev1.OperationRecord{{Name: kindKeys.Record,
				State: rkev1.OperationStateRunning}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := small(t)
			w.cluster.Paused, w.cluster.PausedBy = true, kindKeys.Record
			edit(w)
			w.run(t)
			if w.cluster.Paused {
				t.Error("the operation's pause stays")
			}
			w.cluster.Paused = true
			w.run(t)
			if !w.cluster.Paused {
				t.Error("the user's pause is gone")
			}
		})
	}
}

func TestDecide_KeysWaitForAClusterInOrder(t *testing.T) {
	w := small(t)
	w.machines["w"].probes(false)
	w.cp.Spec.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 1}
	w.cp.Spec.ProvisionGeneration = 3
	for i, c := range w.cp.Status.Conditions {
		if c.Type == "Ready" {
			w.cp.Status.Conditions[i].Status = "Unknown"
		}
	}
	d := w.run(t)
	if w.operation(kindKeys).Attempt != 0 {
		t.Fatalf("begins although the cluster is not in order: %+v", d.Wait)
	}
	if !strings.Contains(traceOf(d, "rotate-encryption-keys"), "it waits for the cluster to be ready") {
		t.Errorf("trace is %+v", d.Trace)
	}
}

func traceOf(d Decision, step string) string {
	for _, t := range d.Trace {
		if t.Step == step {
			return t.Why
		}
	}
	return ""
}

// A request that a server would refuse fails before the server is stopped.
func TestDecide_CertificatesOfUnknownServices(t *testing.T) {
	for name, services := range map[string][]string{"on its own": {"kubelt"},
		"with a known service": {"etcd", "kubelt"}} {
		t.Run(name, func(t *testing.T) {
			w := small(t)
			askCertificates(1, services...)(&w.cp.Spec)
			w.pass(t)
			if d := w.run(t); len(d.Effects) > 0 {
				t.Errorf("something is done: %+v", d.Effects)
			}
			w.pass(t)
			if record := w.operation(kindCertificates); record.State != rkev1.OperationStateFailed ||
				record.Message != "rke2 has no service kubelt with certificates" {
				t.Errorf("record is %+v", record)
			}
			if w.cp.Status.CertificateRotationGeneration == 1 {
				t.Error("the rotation is called done")
			}
		})
	}
}

func TestDecide_KeysNeedARelease(t *testing.T) {
	w := small(t)
	w.cp.Spec.RotateEncryptionKeys = &rkev1.RotateEncryptionKeys{Generation: 1}
	w.pass(t)
	s := w.snapshot(t)
	s.Release = distro.Release{Known: true, Features: map[string]string{"other": "1"}}
	w.apply(Decide(s))
	if record := w.operation(kindKeys); record.State != rkev1.OperationStateFailed ||
		record.Message != "version v1.36.2+rke2r1 cannot rotate encryption keys" {
		t.Errorf("record is %+v", record)
	}
	w.run(t)
	if w.cp.Status.RotateEncryptionKeysPhase != rkev1.RotateEncryptionKeysPhaseFailed {
		t.Error("the failure is not stored")
	}
}

// The next request of a kind waits for the running one, and runs after it.
func TestDecide_RequestsOfOneKindAreNotMerged(t *testing.T) {
	w := small(t)
	d := newDownstream(w)
	w.cp.Spec.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
	w.run(t)
	w.cp.Spec.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 2}
	w.run(t)
	if got := w.cp.Status.ETCDSnapshotCreate.Generation; got != 1 {
		t.Fatalf("generation %d has replaced the one that runs", got)
	}
	d.finish(t)
	if got := d.node("s").runs["etcd-snapshot/create"]; got != 2 {
		t.Errorf("%d snapshots were taken, want 2", got)
	}
}

// A request that is removed and made again is another attempt, also for every node.
func TestDecide_SameRequestAgain(t *testing.T) {
	w := small(t)
	d := newDownstream(w)
	for range 2 {
		w.cp.Spec.ETCDSnapshotCreate = &rkev1.ETCDSnapshotCreate{Generation: 1}
		w.run(t)
		d.finish(t)
		w.cp.Spec.ETCDSnapshotCreate = nil
		w.run(t)
	}
	if got := d.node("s").runs["etcd-snapshot/create"]; got != 2 {
		t.Errorf("%d snapshots were taken, want 2", got)
	}
}

// An operation does not bring a change of version to a node, and the change is still detected afterward (W15).
func TestDecide_OperationsCarryNoChange(t *testing.T) {
	w := small(t)
	before := w.machines["s"].state().Plan
	w.cp.Spec.KubernetesVersion = "v1.36.3+rke2r1"
	w.cp.Spec.MachineGlobalConfig.Data = map[string]any{"selinux": true}
	w.cp.Spec.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
	w.run(t)
	after := w.machines["s"].state().Plan
	if render.OperationOf(after) != render.OperationCertificates {
		t.Fatal("the rotation has not begun")
	}
	if diff := cmp.Diff(before.Files, after.Files); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	newDownstream(w).all("s")
	newDownstream(w).all("w")
	for range 4 {
		w.run(t)
		newDownstream(w).all("w")
	}
	rolled := w.machines["s"].state().Plan
	if render.OperationOf(rolled) != "" || cmp.Equal(before.Files, rolled.Files) {
		t.Error("the change does not reach the node after the operation")
	}
	if d := w.run(t); d.Wait == nil || d.Wait.Reason != ReasonConfiguring {
		t.Errorf("wait is %+v", d.Wait)
	}
}

// An operation of a program that kept no records starts again from the beginning when it was stopped in the middle.
func TestDecide_UnknownPhaseBeginsAnew(t *testing.T) {
	w := small(t)
	w.cp.Spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "file", Generation: 1}
	w.cp.Status.ETCDSnapshotRestore = w.cp.Spec.ETCDSnapshotRestore.DeepCopy()
	w.cp.Status.ETCDSnapshotRestorePhase = "Restore"
	w.pass(t)
	if record := w.operation(kindRestore); record.Attempt != 1 ||
		w.cp.Status.ETCDSnapshotRestorePhase != rkev1.ETCDSnapshotPhaseStarted {
		t.Errorf("record is %+v, phase %s", record, w.cp.Status.ETCDSnapshotRestorePhase)
	}
}

// Machines without a role have no certificates, and a rotation reports that it left them out (W31).
func TestDecide_RotationNamesWhatItLeavesOut(t *testing.T) {
	w := small(t)
	w.add("odd", "")
	w.cp.Spec.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
	w.run(t)
	newDownstream(w).finish(t)
	if status, message := w.condition(ConditionCertificatesRotated); status != "True" ||
		message != "left out for they have no role: odd" {
		t.Errorf("condition is %s %q", status, message)
	}
}

// A member of etcd is stopped only while all others are healthy.
func TestDecide_OperationsWaitForEtcd(t *testing.T) {
	w := ready(t, three)
	w.machines["s3"].probes(false)
	w.cp.Spec.RotateCertificates = &rkev1.RotateCertificates{Generation: 1}
	d := w.run(t)
	if w.machines["s1"].hasPlan() ||
		d.Wait.Message != "certificate rotation: rotate: s1: waiting for etcd to be in order on s3" ||
		d.Wait.After <= 0 {
		t.Fatalf("wait is %+v", d.Wait)
	}
	w.machines["s3"].probes(true)
	w.run(t)
	if !w.machines["s1"].hasPlan() {
		t.Error("the wait does not end with its cause")
	}
}

// In every state in which an operation fails or is cancelled, the node runs in the end.
func TestDecide_WhatEndsHalfWayRunsAgain(t *testing.T) {
	crashpoints.SkipRaced(t)
	for name, ask := range map[string]edit{"certificates": askCertificates(1), "keys": askKeys(1),
		"snapshot": askSnapshot(1)} {
		for turns := range 4 {
			for at := range 14 {
				for _, kill := range []bool{false, true} {
					w := small(t)
					d := newDownstream(w)
					ask(&w.cp.Spec)
					w.run(t)
					for range turns {
						d.all("s", "w")
						w.run(t)
					}
					if !endHalfWay(t, w, d, at, kill) {
						continue
					}
					w.run(t)
					d.finish(t)
					if !d.node("s").up || !d.node("w").up || w.cluster.Paused {
						t.Fatalf("%s, turn %d, instruction %d, killed %v: server up %v, worker up %v, paused %v",
							name, turns, at, kill, d.node("s").up, d.node("w").up, w.cluster.Paused)
					}
				}
			}
		}
	}
}

// endHalfWay makes the agents fail permanently at an instruction, or kills them before it and removes all requests. It
// reports that one of them has such an instruction.
func endHalfWay(t *testing.T, w *world, d *downstream, at int, kill bool) bool {
	t.Helper()
	worked := false
	for _, name := range w.names() {
		state, err := nodeplan.Parse(name, w.machines[name].data)
		if err != nil || !w.machines[name].hasPlan() || at >= len(state.Plan.Instructions) {
			continue
		}
		worked = true
		if kill {
			d.apply(name, fate{dieBefore: at}, false)
			continue
		}
		for range restartAttempts {
			d.apply(name, fate{failAt: state.Plan.Instructions[at].Name, dieBefore: -1}, false)
		}
	}
	if kill {
		w.cp.Spec.RotateCertificates, w.cp.Spec.RotateEncryptionKeys, w.cp.Spec.ETCDSnapshotCreate = nil, nil, nil
	}
	return worked
}

// A snapshot ends when it is taken, and does not wait, or fail, because of the machines' own changes.
func TestDecide_ASnapshotDoesNotWaitForRollOuts(t *testing.T) {
	for name, happens := range map[string]func(w *world){
		"pools are paused": func(w *world) {
			w.machines["s1"].m.PoolPaused, w.machines["s2"].m.PoolPaused = true, true
		},
		"pools are paused, a change waits": func(w *world) {
			w.machines["s1"].m.PoolPaused, w.machines["s2"].m.PoolPaused = true, true
			w.edit(restartAll)
		},
		"machines are left out, it waits too": func(w *world) {
			w.machines["s1"].m.Skip, w.machines["s2"].m.Skip = true, true
			w.edit(restartAll)
		},
		"a member that is lost holds it up": func(w *world) {
			w.machines["s3"].m.NodeLostSince = w.now
			w.edit(restartAll)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, three)
			d := newDownstream(w)
			happens(w)
			w.edit(askSnapshot(1))
			for range 8 {
				w.run(t)
				d.all(w.names()...)
			}
			if record := w.operation(kindCreate); record.State != rkev1.OperationStateSucceeded ||
				w.cp.Status.ETCDSnapshotCreatePhase != rkev1.ETCDSnapshotPhaseFinished {
				t.Errorf("record is %+v, phase %s", record, w.cp.Status.ETCDSnapshotCreatePhase)
			}
		})
	}
}
