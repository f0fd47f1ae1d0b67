package planner

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// look is Cluster API noticing that the cluster is paused, or no longer.
func (m *opsModel) look(name string) {
	if h := m.machines[name]; h.m.Paused != m.cluster.Paused {
		h.m.Paused, h.m.ResumedAt = m.cluster.Paused, m.now
	}
}

// checkNodes checks that a rotation that is reported as done has waited for the nodes of etcd machines, which take part
// in every rotation. Where it did not, it says so.
func (m *opsModel) checkNodes(rt *rapid.T, d Decision) {
	for _, k := range []*kind{kindCertificates, kindKeys} {
		isDone := k.runsIn(&m.cp.Status) && k.recordIn(&d.Status).State == rkev1.OperationStateSucceeded
		if !isDone || !m.requested()[k] || m.cluster.Paused && m.cluster.PausedBy == "" {
			continue
		}
		for _, name := range m.names() {
			h := m.machines[name]
			state, err := h.parse()
			if err != nil || !state.InSync || !h.registered || !h.is("etcd") || h.m.Deleting || !h.m.HasNode {
				continue
			}
			isReady := !h.m.Paused && h.m.NodeProblem == ""
			if c := conditionOf(d, k.Condition); !isReady && !strings.Contains(c.Message, "nodes are not ready") {
				rt.Fatalf("%s is done with %q, and the node of %s is not ready", k.Title, c.Message, name)
			}
		}
	}
}

func conditionOf(d Decision, kind string) rkev1.GenericCondition {
	for _, c := range d.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return rkev1.GenericCondition{}
}

// A rotation is done when the nodes are ready after their last restart, and Cluster API has looked at them. It does not
// wait forever, and not for nodes that Cluster API cannot report because the user has paused the cluster.
func TestDecide_ARotationWaitsForItsNodes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		happen  func(m *opsModel)
		want    rkev1.OperationState
		message string
	}{
		"all are ready":       {func(*opsModel) {}, rkev1.OperationStateSucceeded, ""},
		"a node is not ready": {notReady, rkev1.OperationStateRunning, ""},
		"a node is ready again": {func(m *opsModel) {
			notReady(m)
			m.run(t)
			m.machines["e1"].m.NodeProblem = ""
		}, rkev1.OperationStateSucceeded, ""},
		"a node is not ready for long": {func(m *opsModel) {
			notReady(m)
			m.now = m.now.Add(nodesDeadline)
		}, rkev1.OperationStateSucceeded, "nodes are not ready: e1: the kubelet starts"},
		"Cluster API has not resumed": {func(m *opsModel) { m.machines["e1"].m.Paused = true },
			rkev1.OperationStateRunning, ""},
		"Cluster API has just resumed": {func(m *opsModel) { m.machines["e1"].m.ResumedAt = m.now },
			rkev1.OperationStateRunning, ""},
		"Cluster API resumed a while ago": {func(m *opsModel) {
			m.machines["e1"].m.ResumedAt = m.now
			m.now = m.now.Add(nodesSettle)
		}, rkev1.OperationStateSucceeded, ""},
		"the user has paused the cluster": {func(m *opsModel) {
			notReady(m)
			m.cluster.Paused = true
		}, rkev1.OperationStateSucceeded, ""},
		"the user has paused the machine": {func(m *opsModel) {
			notReady(m)
			m.machines["e1"].m.Paused, m.machines["e1"].m.PausedByUser = true, true
		}, rkev1.OperationStateSucceeded, ""},
		"the user removes the request": {func(m *opsModel) {
			notReady(m)
			m.edit(func(s *rkev1.RKEControlPlaneSpec) { s.RotateCertificates, s.RotateEncryptionKeys = nil, nil })
		}, rkev1.OperationStateSucceeded, msgNotAwaited},
		"a machine has no node": {func(m *opsModel) {
			notReady(m)
			m.machines["e1"].m.HasNode = false
		}, rkev1.OperationStateSucceeded, ""},
	} {
		for _, k := range []*kind{kindCertificates, kindKeys} {
			t.Run(k.Title+", "+name, func(t *testing.T) {
				t.Parallel()
				m := rotated(t, k)
				tc.happen(&m)
				d := m.run(t)
				if record := m.operation(k); record.State != tc.want {
					t.Fatalf("the rotation is %s: %s; wait is %+v", record.State, record.Message, d.Wait)
				}
				if m.cluster.PausedBy != "" {
					t.Error("the rotation still pauses the cluster")
				}
				isRunning := tc.want == rkev1.OperationStateRunning
				if isRunning && (d.Wait == nil || !strings.Contains(d.Wait.Message, "e1") || d.Wait.After <= 0) {
					t.Errorf("wait is %+v", d.Wait)
				}
				if k == kindCertificates && tc.want == rkev1.OperationStateSucceeded &&
					m.cp.Status.CertificateRotationGeneration != 1 {
					t.Errorf("the generation is %d", m.cp.Status.CertificateRotationGeneration)
				}
				if _, message := m.condition(k.Condition); message != tc.message {
					t.Errorf("the condition says %q", message)
				}
			})
		}
	}
}

func notReady(m *opsModel) { m.machines["e1"].m.NodeProblem = "the kubelet starts" }

// rotated is a cluster in which a rotation has just restarted its last machine.
func rotated(t *testing.T, k *kind) opsModel {
	t.Helper()
	m := upWith(t, k3sVersion, startTopology)
	if k == kindKeys {
		m.edit(askKeys(1))
	} else {
		m.edit(askCertificates(1))
	}
	for range 60 {
		if m.pass(t); m.operation(k).Step == stepNodes {
			m.now = m.now.Add(time.Second)
			m.pass(t) // ends the pause
			for _, h := range m.machines {
				h.m.Paused, h.m.ResumedAt = false, m.now.Add(-nodesSettle)
			}
			return m
		}
		m.work()
	}
	t.Fatalf("the rotation is %+v", m.operation(k))
	return m
}
