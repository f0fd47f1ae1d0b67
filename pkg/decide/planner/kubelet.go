package planner

import (
	"maps"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// withoutIdleKubelet returns the machine with a passed kubelet probe, if the probe may fail only because no API server
// answers.
func (c *cluster) withoutIdleKubelet(m *Machine) *Machine {
	if !m.Plan.MayIdle(m.Labels) || c.hasAPIServer() {
		return m
	}
	out := *m
	out.Plan = m.Plan.WithoutIdleKubelet()
	return &out
}

// MayIdle reports that the kubelet of the machine with this plan Secret and these labels does not start before an API
// server answers, and that its probe has not passed. K3s starts a kubelet when an API server answers, and a server of
// K3s with etcd alone has none of its own. Control plane machines start after etcd, so both would wait for each other.
// On RKE2 the kubelet starts etcd, and etcd has its own probe. K3s has no such probe: once an API server answers, the
// kubelet is the only evidence of etcd.
func (s *PlanSecret) MayIdle(labels map[string]string) bool {
	if s == nil || !rolesOf(labels).OnlyETCD() {
		return false
	}
	_, isProbed := s.State.Plan.Probes[render.ProbeKubelet]
	_, hasEtcdProbe := s.State.Plan.Probes[render.ProbeETCD]
	return isProbed && !hasEtcdProbe && !s.State.ProbeStatuses[render.ProbeKubelet].Healthy
}

// WithoutIdleKubelet returns a plan Secret whose kubelet probe has passed.
func (s *PlanSecret) WithoutIdleKubelet() *PlanSecret {
	out := *s
	out.State.ProbeStatuses = maps.Clone(out.State.ProbeStatuses)
	if out.State.ProbeStatuses == nil {
		out.State.ProbeStatuses = map[string]plan.ProbeStatus{}
	}
	out.State.ProbeStatuses[render.ProbeKubelet] = plan.ProbeStatus{Healthy: true}
	return &out
}

// hasAPIServer reports that an API server of the cluster answers, as far as is known.
func (c *cluster) hasAPIServer() bool {
	for i := range c.s.Machines {
		m := &c.s.Machines[i]
		if !m.Deleting && !m.NodeUnknown && m.NodeLostSince.IsZero() && m.Plan.ServesAPI() {
			return true
		}
	}
	return false
}

// ServesAPI reports that the last report of a machine says that its API server answers.
func (s *PlanSecret) ServesAPI() bool {
	if s == nil {
		return false
	}
	_, isProbed := s.State.Plan.Probes[render.ProbeAPIServer]
	return isProbed && s.State.ProbeStatuses[render.ProbeAPIServer].Healthy
}
