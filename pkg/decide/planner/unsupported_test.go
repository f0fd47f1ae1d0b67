package planner

import (
	"slices"
	"strings"
	"testing"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// A Windows machine keeps its plan, whatever happens to the others, and the cluster names it.
func TestDecide_AWindowsMachineKeepsItsPlan(t *testing.T) {
	m := withWindows(t, startTopology)
	windows := m.machines["win"]
	before := windows.state().Checksum
	m.edit(restartAll)
	m.edit(askCertificates(1))
	for range 60 {
		m.run(t)
		m.work()
	}
	if windows.state().Checksum != before {
		t.Error("a change of the cluster reaches the Windows machine")
	}
	if w1 := m.machines["w1"].state(); !w1.InSync || render.OperationOf(w1.Plan) != "" {
		t.Errorf("the Linux worker is not in order: %+v", w1)
	}
	if record := m.operation(kindCertificates); record.State != rkev1.OperationStateSucceeded {
		t.Errorf("the rotation is %+v", record)
	}
	d := m.run(t)
	if d.Wait == nil || d.Wait.Reason != ReasonLeftOut || !strings.HasSuffix(d.Wait.Message, "win: "+msgUnsupported) {
		t.Errorf("wait is %+v", d.Wait)
	}
	if got := windows.m.Reconciled.Message; got != msgUnsupported {
		t.Errorf("the machine says %q", got)
	}
	if expected, tier := Assess(m.snapshot(t)).Find("win"); tier != "" || expected.Held != msgUnsupported {
		t.Errorf("the outlook is %+v in tier %q", expected, tier)
	}
}

// A restore does not stop a Windows machine, and does not wait for it.
func TestDecide_ARestoreLeavesWindowsMachinesAlone(t *testing.T) {
	m := withWindows(t, startTopology)
	before := m.machines["win"].state().Checksum
	m.restore(t, "e2")
	m.finishRestore(t)
	if m.machines["win"].state().Checksum != before {
		t.Error("the restore reaches the Windows machine")
	}
}

// The node of a Windows machine may be ready after a restore, and the cleanup of pods does not wait until it is gone.
func TestDecide_ThePodCleanupKnowsThatWindowsMachinesRun(t *testing.T) {
	m := withWindows(t, map[string]string{"e1": "etcd", "s1": "control-plane", "w1": "worker"})
	uid := string(m.machines["win"].m.UID)
	if cleanup := m.podCleanup(t); !slices.Contains(cleanup.Env, "POSSIBLE="+uid) {
		t.Errorf("s1 does not know of %s: %+v", uid, cleanup)
	}
}

// No server runs Windows. A server with the label by mistake stays a member like others.
func TestDecide_AServerWithTheLabelOfWindowsIsStopped(t *testing.T) {
	m := upWith(t, rke2Version, startTopology)
	m.machines["e3"].m.Labels[rkev1.CattleOSLabel] = rkev1.OSWindows
	m.restore(t, "e2")
	if plan := m.machines["e3"].state().Plan; render.OperationOf(plan) != render.OperationStop {
		t.Errorf("the plan of e3 is one of %q", render.OperationOf(plan))
	}
}

func TestTakeOver_RefusesWindowsMachines(t *testing.T) {
	w := rollWorld(t)
	w.theirs(t)
	for _, name := range []string{"w1", "w2"} {
		w.machines[name].m.Labels[rkev1.CattleOSLabel] = rkev1.OSWindows
	}
	got := TakeOver(w.snapshot(t))
	const want = "Drover does not support Windows; delete these machines with the manager that they have, or leave " +
		"the cluster with it: w1,w2"
	if len(got.Problems) != 1 || got.Problems[0] != want {
		t.Errorf("problems %q", got.Problems)
	}
	if _, noted := got.Marks["w1"]; noted {
		t.Error("a Windows machine gets notes")
	}
}

// withWindows is a cluster in order with one more worker, which then gets the label of Windows.
func withWindows(t *testing.T, roles map[string]string) opsModel {
	t.Helper()
	m := upWith(t, rke2Version, roles)
	windows := m.add("win", "worker")
	for range 20 {
		m.run(t)
		m.work()
	}
	if !windows.state().InSync {
		t.Fatal("the machine has no plan")
	}
	windows.m.Labels[rkev1.CattleOSLabel] = rkev1.OSWindows
	return m
}
