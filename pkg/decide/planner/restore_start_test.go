package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

var startTopology = map[string]string{"c1": "control-plane", "e1": "etcd", "e2": "etcd", "e3": "etcd", "w1": "worker"}

// startMoments are stages of a restore.
var startMoments = map[string]func(t *testing.T, w *world){
	"while it is restored":     func(*testing.T, *world) {},
	"when it is restored":      func(t *testing.T, w *world) { t.Helper(); w.pass(t) },
	"when it is told to start": func(t *testing.T, w *world) { t.Helper(); w.run(t) },
}

// Only the machine on which etcd was restored starts etcd before it is known to run, whatever happens to it. The others
// have discarded their data, and would start an empty cluster.
func TestDecide_RestoredMachineStartsFirst(t *testing.T) {
	crashpoints.SkipRaced(t)
	for name, happens := range map[string]func(w *world, h *host){
		"its agent does not answer":     func(*world, *host) {},
		"its plan fails":                func(_ *world, h *host) { h.failPlan() },
		"it is deleted":                 func(_ *world, h *host) { h.m.Deleting = true },
		"it is deleted and held":        func(_ *world, h *host) { h.m.Deleting, h.m.Held = true, true },
		"it is gone":                    func(w *world, _ *host) { delete(w.machines, "e2") },
		"its host is gone":              func(_ *world, h *host) { h.m.InfrastructureReady = false },
		"it has failed":                 func(_ *world, h *host) { h.m.Phase = phaseFailed },
		"its node is lost":              func(w *world, h *host) { h.m.NodeLostSince = w.now.Add(-24 * time.Hour) },
		"its plan is too large":         func(_ *world, h *host) { h.reports = MaxSecretSize },
		"it is left out":                func(_ *world, h *host) { h.m.Skip = true },
		"it is left out in a held pool": func(_ *world, h *host) { h.m.Skip, h.m.PoolPaused = true, true },
		"its plan secret is unreadable": func(_ *world, h *host) { h.data[nodeplan.KeyProbeStatuses] = []byte("{") },
		"its plan secret is lost":       func(_ *world, h *host) { h.registered = false },
		"its plan secret is new":        func(_ *world, h *host) { h.data = nil },
	} {
		for moment, come := range startMoments {
			// In K3s, a machine with only etcd has no probes.
			for _, version := range []string{k3sVersion, rke2Version} {
				for _, late := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/late=%v", name, moment, version, late), func(t *testing.T) {
						m := restoredOnE2(t, version)
						come(t, m.world)
						happens(m.world, m.machines["e2"])
						for range 4 {
							m.run(t)
							if late {
								m.now = m.now.Add(restartDeadline + time.Minute)
							}
						}
						for _, other := range []string{"e1", "e3"} {
							if state := m.machines[other].state(); render.OperationOf(state.Plan) !=
								render.OperationStop {
								t.Errorf("%s is told to start", other)
							}
						}
					})
				}
			}
		}
	}
}

// A restored machine that is left out of rollouts may still not run. The server that cleans up pods may have etcd too,
// and waits for it.
func TestDecide_NobodyJoinsARestoredMachineBeforeItRuns(t *testing.T) {
	m := upWith(t, rke2Version, map[string]string{"e1": "etcd", "s1": "etcd,control-plane", "w1": "worker"})
	m.restore(t, "e1")
	m.machines["e1"].m.Skip = true
	m.run(t)
	if m.machines["e1"].hasPlan() == m.machines["s1"].hasPlan() {
		t.Fatalf("to be started are e1: %v, s1: %v", m.machines["e1"].hasPlan(), m.machines["s1"].hasPlan())
	}
	m.d.all("e1")
	m.run(t)
	if !m.machines["s1"].hasPlan() {
		t.Error("s1 is not started although e1 runs")
	}
}

// The pod cleanup waits until the nodes of all machines that do not run are seen as gone. The init node runs: for RKE2
// the cleanup waits for its node, for K3s the node may exist.
func TestDecide_ThePodCleanupKnowsThatTheInitNodeRuns(t *testing.T) {
	for version, want := range map[string]string{k3sVersion: "POSSIBLE=%[2]s", rke2Version: "%[1]s %[2]s"} {
		t.Run(version, func(t *testing.T) {
			m := upWith(t, version, map[string]string{"e1": "etcd", "s1": "control-plane", "w1": "worker"})
			cleanup := m.podCleanup(t)
			command := strings.Join(slices.Concat(cleanup.Args, cleanup.Env), " ")
			if want := fmt.Sprintf(want, m.machines["s1"].m.UID, m.machines["e1"].m.UID); !strings.Contains(command,
				want) {
				t.Errorf("%q is not in %q", want, command)
			}
		})
	}
}

// podCleanup restores etcd on e1. It returns the instruction with which s1 waits for the nodes before it removes pods.
func (m *opsModel) podCleanup(t *testing.T) plan.OneTimeInstruction {
	t.Helper()
	m.restore(t, "e1")
	m.run(t)
	m.d.all("e1")
	m.run(t)
	for _, i := range m.machines["s1"].state().Plan.Instructions {
		if strings.Contains(i.Name, "wait-for-desired-ready-nodes") {
			return i
		}
	}
	t.Fatal("s1 cleans up no pods")
	return plan.OneTimeInstruction{}
}

// restoredOnE2 is a cluster in which everything was stopped and etcd has just been restored.
func restoredOnE2(t *testing.T, version string) opsModel {
	t.Helper()
	m := upWith(t, version, startTopology)
	m.restore(t, "e2")
	return m
}

// upWith is a working cluster.
func upWith(t *testing.T, version string, roles map[string]string) opsModel {
	t.Helper()
	w := newWorld(version)
	for name, roles := range roles {
		w.add(name, roles)
	}
	w.connected = true
	m := opsModel{world: w, d: newDownstream(w)}
	for w.run(t).Wait != nil {
		m.work()
	}
	return m
}

// restore stops everything and restores etcd on a machine.
func (m *opsModel) restore(t *testing.T, on string) {
	t.Helper()
	m.snapshots = []ETCDSnapshot{{Name: "on-" + on, MachineUID: m.machines[on].m.UID, File: "f"}}
	m.edit(askRestore("on-"+on, 1))
	m.run(t)
	m.d.all(m.running()...)
	m.run(t)
	if m.cp.Status.ETCDSnapshotRestorePhase != rkev1.ETCDSnapshotPhaseRestore {
		t.Fatalf("phase is %s", m.cp.Status.ETCDSnapshotRestorePhase)
	}
	m.d.all(on)
}

// The others follow when the restored machine is known to run, even after the deadline of the restore. On K3s it has
// then applied its plan: its only probe is that of the kubelet, which waits for an API server.
func TestDecide_OthersFollowTheRestoredMachine(t *testing.T) {
	for _, version := range []string{k3sVersion, rke2Version} {
		m := restoredOnE2(t, version)
		m.run(t)
		m.now = m.now.Add(restartDeadline + time.Minute)
		m.run(t)
		if record := m.operation(kindRestore); record.State != rkev1.OperationStateFailed || record.Stopped {
			t.Fatalf("%s: the restore is %+v", version, record)
		}
		m.d.apply("e2", fine, false)
		m.run(t)
		if starts := m.machines["e1"].hasPlan(); starts != (version == k3sVersion) {
			t.Errorf("%s: e1 is told to start: %v", version, starts)
		}
		for range 20 {
			m.work()
			m.run(t)
		}
		if status, message := m.condition("Ready"); status != "True" || len(m.d.wrong) > 0 {
			t.Errorf("%s: Ready is %s: %s; wrong is %v", version, status, message, m.d.wrong)
		}
	}
}

// A stopped machine starts no cluster when the restored one is gone, even if the user has designated it, because it has
// no data.
func TestDecide_ADesignatedMachineThatWasStoppedBeginsNothing(t *testing.T) {
	m := restoredOnE2(t, rke2Version)
	m.machines["e1"].m.Labels[rkev1.MachineIDLabel] = "e1-id"
	m.cp.Labels = map[string]string{rkev1.InitNodeMachineIDLabel: "e1-id"}
	delete(m.machines, "e3")
	m.run(t)
	m.now = m.now.Add(restartDeadline + time.Minute)
	m.run(t)
	if record := m.operation(kindRestore); record.State != rkev1.OperationStateFailed || record.Stopped {
		t.Fatalf("the restore is %+v", record)
	}
	delete(m.machines, "e2")
	for range 4 {
		m.run(t)
	}
	if state := m.machines["e1"].state(); render.OperationOf(state.Plan) != render.OperationStop {
		t.Error("e1 is told to start, on no data")
	}
	if status, message := m.condition("Ready"); status == "True" {
		t.Errorf("Ready is %s: %s", status, message)
	}
}

// W21: machines that are down after a restore have nothing to lose. All machines of a tier start at once, whatever the
// upgrade strategy says, except etcd members, which start one after the other.
func TestDecide_EverybodyWhoIsDownStartsAtOnce(t *testing.T) {
	m := upWith(t, rke2Version, map[string]string{
		"s1": allRoles, "c1": "control-plane", "c2": "control-plane", "c3": "control-plane", "w1": "worker",
		"w2": "worker", "w3": "worker",
	})
	m.snapshots = []ETCDSnapshot{{Name: "on-s1", MachineUID: "uid-s1", File: "f"}}
	m.edit(func(spec *rkev1.RKEControlPlaneSpec) {
		spec.UpgradeStrategy.ControlPlaneConcurrency, spec.UpgradeStrategy.WorkerConcurrency = "1", "1"
		spec.ETCDSnapshotRestore = &rkev1.ETCDSnapshotRestore{Name: "on-s1", Generation: 1}
	})
	started := map[string]bool{}
	for range 60 {
		m.now = m.now.Add(time.Second)
		d := Decide(m.snapshot(t))
		m.apply(d)
		if told := deliveries(d); m.cp.Status.ETCDSnapshotRestorePhase == rkev1.ETCDSnapshotPhaseInitialRestartCluster {
			for _, tier := range [][]string{{"c1", "c2", "c3"}, {"w1", "w2", "w3"}} {
				if slices.Contains(told, tier[0]) && !started[tier[0]] {
					started[tier[0]] = true
					if !slices.Equal(told, tier) {
						t.Errorf("%v are told to start, not all of %v", told, tier)
					}
				}
			}
		}
		if len(d.Effects) == 0 {
			m.work()
		}
	}
	if len(started) != 2 {
		t.Errorf("started were %v; the restore is %+v", started, m.operation(kindRestore))
	}
}

// A restore starts the machines that it has stopped, also in paused pools, because the pause is about changes of what
// runs. A drain that was in progress ends after the machine runs.
func TestDecide_PausedPoolsAreStartedAgain(t *testing.T) {
	for _, version := range []string{k3sVersion, rke2Version} {
		for name, paused := range map[string]map[string]bool{
			"the worker": {"w1": true}, "the API server": {"c1": true}, "the machine that is restored": {"e2": true},
			"a member of etcd": {"e3": true},
			"everything":       {"c1": true, "e1": true, "e2": true, "e3": true, "w1": true},
		} {
			t.Run(version+"/"+name, func(t *testing.T) {
				m := restoredOnE2(t, version)
				m.paused = paused
				for name := range paused {
					m.machines[name].m.PoolPaused = true
				}
				m.machines["w1"].drain = Drain{Requested: "{}", Done: "{}"}
				for name := range paused {
					if expected, _ := Assess(m.snapshot(t)).Find(name); expected.Held != "" {
						t.Errorf("%s is said to wait: %s", name, expected.Held)
					}
				}
				m.finishRestore(t)
				if len(m.d.wrong) > 0 {
					t.Error(m.d.wrong)
				}
				for _, name := range m.names() {
					if state := m.machines[name].state(); !m.d.node(name).up || !state.InSync ||
						render.OperationOf(state.Plan) != "" {
						t.Errorf("%s: up is %v, the plan is one of %q", name, m.d.node(name).up,
							render.OperationOf(state.Plan))
					}
				}
				if status, message := m.condition("Ready"); status != "True" {
					t.Errorf("Ready is %s: %s", status, message)
				}
			})
		}
	}
}

// A machine that was stopped and then deleted has no member that could block the restore. It cannot go either, because
// the cluster is paused.
func TestDecide_ARestoreGoesOnWithoutAStoppedMachineThatIsDeleted(t *testing.T) {
	for name, version := range map[string]string{"K3s": k3sVersion, "RKE2": rke2Version} {
		t.Run(name, func(t *testing.T) {
			m := restoredOnE2(t, version)
			if !m.cluster.Paused {
				t.Fatal("the restore has not paused the cluster")
			}
			m.deleted("e1")
			m.finishRestore(t)
			if len(m.d.wrong) > 0 || m.d.node("e1").up {
				t.Errorf("e1 is up: %v; wrong is %v", m.d.node("e1").up, m.d.wrong)
			}
		})
	}
}

// finishRestore lets everything work until the restore has ended and nothing is left to do.
func (m *opsModel) finishRestore(t *testing.T) {
	t.Helper()
	for range 60 {
		m.now = m.now.Add(time.Minute)
		m.run(t)
		m.work()
		for _, name := range m.names() {
			m.machines[name].drainNode()
		}
	}
	if record := m.operation(kindRestore); record.State != rkev1.OperationStateSucceeded {
		t.Fatalf("the restore is %+v", record)
	}
}
