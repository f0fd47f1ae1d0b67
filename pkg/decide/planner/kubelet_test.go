package planner

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// The kubelet of a K3s server with etcd alone starts when an API server answers. Until then it holds up nothing, and
// afterwards its probe counts. On RKE2 it always counts, because it starts etcd.
func TestDecide_AKubeletThatWaitsForAnAPIServerHoldsUpNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version string
		happen  func(m *opsModel)
		want    State
	}{
		"K3s, no control plane":       {k3sVersion, func(m *opsModel) { delete(m.machines, "c1") }, StateHealthy},
		"K3s, the API server answers": {k3sVersion, func(*opsModel) {}, StateUnhealthy},
		"K3s, the API server does not answer": {
			k3sVersion, func(m *opsModel) { m.machines["c1"].probes(false) }, StateHealthy,
		},
		"K3s, the node of the API server is lost": {
			k3sVersion, func(m *opsModel) { m.machines["c1"].m.NodeLostSince = m.now }, StateHealthy,
		},
		"K3s, the cluster is not connected": {
			k3sVersion, func(m *opsModel) { m.machines["c1"].m.NodeUnknown = true }, StateHealthy,
		},
		"K3s, the control plane is being deleted": {
			k3sVersion, func(m *opsModel) { m.machines["c1"].m.Deleting = true }, StateHealthy,
		},
		"RKE2, no control plane": {rke2Version, func(m *opsModel) { delete(m.machines, "c1") }, StateUnhealthy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := upWith(t, tc.version, startTopology)
			m.machines["e1"].probes(false)
			tc.happen(&m)
			s := m.snapshot(t)
			i := slices.IndexFunc(s.Machines, func(m Machine) bool { return m.Name == "e1" })
			before := s.Machines[i].Plan.State.ProbeStatuses[render.ProbeKubelet]
			c := newCluster(&s)
			if got := c.collect(func(m *machine) bool { return m.Name == "e1" })[0].state; got != tc.want {
				t.Errorf("e1 is %s, want %s", got, tc.want)
			}
			if got := Explain(s).Machines[i].State; got != tc.want {
				t.Errorf("e1 is explained as %s, want %s", got, tc.want)
			}
			if after := s.Machines[i].Plan.State.ProbeStatuses[render.ProbeKubelet]; before != after {
				t.Error("the snapshot has changed")
			}
		})
	}
}

// A new control plane machine replaces the only one, although a machine with etcd has restarted since and its kubelet
// waits for an API server.
func TestDecide_AControlPlaneStartsWhileKubeletsWaitForIt(t *testing.T) {
	t.Parallel()
	m := upWith(t, k3sVersion, startTopology)
	delete(m.machines, "c1")
	m.machines["e1"].probes(false)
	m.add("c2", "control-plane")
	m.run(t)
	if !m.machines["c2"].hasPlan() {
		t.Fatal("c2 gets no plan")
	}
	m.now = m.now.Add(time.Minute)
	for range 20 {
		m.work()
		m.run(t)
	}
	if status, message := m.condition("Ready"); status != "True" {
		t.Errorf("Ready is %s: %s", status, message)
	}
}

// judged is the state of a host without a kubelet probe that fails only because no API server answers.
func (w *world) judged(h *host) nodeplan.State {
	state := h.state()
	_, probed := state.Plan.Probes[render.ProbeKubelet]
	isK3s := strings.Contains(w.cp.Spec.KubernetesVersion, "+k3s")
	if isK3s && probed && h.is("etcd") && !h.is("control-plane") && !w.hasAPIServer() {
		state.ProbeStatuses = maps.Clone(state.ProbeStatuses)
		state.ProbeStatuses[render.ProbeKubelet] = plan.ProbeStatus{Healthy: true}
		state.Healthy = len(state.UnhealthyProbes()) == 0
	}
	return state
}

func (w *world) hasAPIServer() bool {
	for _, h := range w.machines {
		if h.registered && !h.m.Deleting && !h.m.NodeUnknown && h.m.NodeLostSince.IsZero() &&
			h.is("control-plane") && h.state().ProbeStatuses[render.ProbeAPIServer].Healthy {
			return true
		}
	}
	return false
}
