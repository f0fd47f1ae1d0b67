package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// askS3 requests a restore from S3.
func (m *opsModel) askS3(t *testing.T) {
	t.Helper()
	m.offer()
	m.edit(askRestore("in-s3", 1))
	m.run(t)
}

// operations are the operations of the machines' plans.
func (m *opsModel) operations() map[string]string {
	out := map[string]string{}
	for _, name := range m.names() {
		out[name] = render.OperationOf(m.machines[name].state().Plan)
	}
	return out
}

// A restore looks for its snapshot in S3 while everything runs, and fails then if the snapshot is not there.
func TestDecide_ARestoreFindsItsSnapshotFirst(t *testing.T) {
	m := upWith(t, rke2Version, startTopology)
	m.askS3(t)
	searching := ""
	for name, operation := range m.operations() {
		switch {
		case operation == render.OperationFind && searching == "":
			searching = name
		case operation != "":
			t.Errorf("%s has a plan of %s", name, operation)
		}
	}
	if searching == "" {
		t.Fatal("the snapshot is not searched for")
	}
	m.d.apply(searching, fate{failAt: "snapshot-in-s3", dieBefore: -1}, false)
	m.run(t)
	if status, message := m.condition(ConditionSnapshotRestored); status != "False" || !strings.HasPrefix(message,
		"Started: "+searching) || strings.Contains(message, hintStopped) {
		t.Errorf("the condition is %s: %s", status, message)
	}
	for range 5 {
		m.run(t)
		m.work()
	}
	for name, operation := range m.operations() {
		if operation != "" || !m.d.node(name).up {
			t.Errorf("%s has a plan of %q, and is up: %v", name, operation, m.d.node(name).up)
		}
	}

	m.edit(askRestore("in-s3", 2))
	m.finishRestore(t)
}

// A machine whose etcd does not work cannot be asked, and needs the restore.
func TestDecide_ARestoreOfABrokenClusterDoesNotSearch(t *testing.T) {
	m := upWith(t, rke2Version, startTopology)
	for _, name := range m.names() {
		m.machines[name].probes(false)
	}
	m.askS3(t)
	for name, operation := range m.operations() {
		if operation != render.OperationStop {
			t.Errorf("%s has a plan of %q", name, operation)
		}
	}
}

// When all servers are gone, a restore on new machines waits for them, and lets workers run until they join the new
// server.
func TestDecide_TotalLoss(t *testing.T) {
	for name, roles := range map[string]map[string]string{
		"one server":     {"s1": "etcd,control-plane", "w1": "worker"},
		"separate roles": {"c1": "control-plane", "e1": "etcd", "w1": "worker"},
		"three servers": {
			"s1": "etcd,control-plane", "s2": "etcd,control-plane", "s3": "etcd,control-plane", "w1": "worker",
		},
	} {
		for _, version := range []string{rke2Version, k3sVersion} {
			t.Run(name+"/"+version, func(t *testing.T) {
				m := upWith(t, version, roles)
				before := m.machines["w1"].state().Checksum
				fresh := m.loseServers(roles)
				m.connected = false
				m.askS3(t)
				if phase := m.cp.Status.ETCDSnapshotRestorePhase; phase != rkev1.ETCDSnapshotPhaseStarted {
					t.Fatalf("while no machine can start etcd, the restore is in %s", phase)
				}
				s := m.snapshot(t)
				if found := operationsOf(&s); len(found) != 1 || found[0].Held != problemNoTarget ||
					found[0].Problem != "" {
					t.Errorf("the outlook is %+v", found)
				}
				for _, name := range fresh {
					m.machines[name].m.InfrastructureReady = true
				}
				m.run(t)
				for lost := range roles {
					if lost != "w1" {
						delete(m.machines, lost)
					}
				}
				for range 40 {
					m.run(t)
					m.d.all(fresh...)
					if m.machines["w1"].state().Checksum != before {
						break
					}
					m.now = m.now.Add(time.Minute)
					m.connected = true
					for _, name := range fresh {
						m.machines[name].joinCluster(version)
						m.periodics(name)
					}
				}
				if operation := render.OperationOf(m.machines["w1"].state().Plan); operation != "" {
					t.Errorf("the worker has a plan of %s", operation)
				}
				m.finishRestore(t)
				if joined := m.machines["w1"].m.Marks.JoinedTo; !slices.ContainsFunc(fresh, func(name string) bool {
					return joined != "" && m.machines[name].m.Marks.JoinURL == joined
				}) {
					t.Errorf("the worker has joined %q", joined)
				}
			})
		}
	}
}

// The members of lost machines hold no deletion when the user restores a snapshot in S3, because pools replace a
// machine only when it is gone. Members that Drover sees working stay.
func TestDecide_ARestoreFromS3GivesUpLostMembers(t *testing.T) {
	for name, tc := range map[string]struct {
		snapshot string
		unknown  bool
		want     bool
	}{
		"in S3, out of sight":        {"in-s3", true, true},
		"in S3, seen":                {"in-s3", false, false},
		"on a machine, out of sight": {"on-s1", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := upWith(t, rke2Version, map[string]string{"s1": "etcd,control-plane", "w1": "worker"})
			lost := m.machines["s1"]
			lost.m.Deleting, lost.m.Held, lost.m.NodeUnknown = true, true, tc.unknown
			m.connected = !tc.unknown
			m.offer()
			m.edit(askRestore(tc.snapshot, 1))
			for range 5 {
				m.run(t)
			}
			if lost.m.ForceRemove != tc.want {
				t.Errorf("the member is given up: %v, want %v", lost.m.ForceRemove, tc.want)
			}
		})
	}
}

// loseServers deletes all servers, and registers one new machine for each, whose host does not exist yet.
func (m *opsModel) loseServers(roles map[string]string) (fresh []string) {
	for _, name := range m.names() {
		if roles[name] == "worker" {
			continue
		}
		m.machines[name].m.Deleting, m.machines[name].m.Held = true, true
		m.add("new-"+name, roles[name]).m.InfrastructureReady = false
		fresh = append(fresh, "new-"+name)
	}
	return fresh
}
