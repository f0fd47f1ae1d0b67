package planner

import (
	"cmp"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/drover-io/drover/pkg/decide/redact"
)

// progress says what machines still wait for, and why their plans fail.
type progress struct {
	*cluster
	// secrets are the values that no message may contain. They are nil until first use.
	secrets *redact.Secrets
}

// of says what a machine with the right plan still waits for, empty when it is in order.
func (g *progress) of(m *machine) string {
	if message := g.ofPlan(m); message != "" || m.isInDrain() {
		return cmp.Or(message, msgUncordon)
	}
	return g.ofNode(m)
}

// ofPlan is the agent's progress with the plan.
func (g *progress) ofPlan(m *machine) string {
	state := &m.Plan.State
	unhealthy := m.unhealthyProbes()
	switch {
	case state.Failed:
		return g.failureOf(m)
	case neverApplied(state) && !state.InSync:
		return msgCheckIn
	case state.Plan.Error != "":
		return state.Plan.Error
	case !state.InSync:
		return msgApplied
	case len(unhealthy) > 0:
		return msgProbes + strings.Join(unhealthy, ", ")
	}
	return ""
}

// ofNode is the node's progress after the plan was applied.
func (g *progress) ofNode(m *machine) string {
	switch {
	case !g.kubeletCurrent(m):
		return msgKubelet
	case m.roles.ControlPlane && g.s.ClusterAgent.PreBootstrap:
		return msgPreBootstrap
	case m.roles.ControlPlane && !g.s.Connected && !g.s.AgentDeployed:
		return msgConnect
	}
	return ""
}

// kubeletCurrent reports that the node runs the requested version. Builds of a distribution count as equal, and an
// unseen node counts as current.
func (c *cluster) kubeletCurrent(m *machine) bool {
	if m.KubeletVersion == "" || !c.s.Connected || m.KubeletVersion == c.s.ControlPlane.Spec.KubernetesVersion {
		return true
	}
	want, err := semver.NewVersion(c.s.ControlPlane.Spec.KubernetesVersion)
	if err != nil {
		return true
	}
	have, err := semver.NewVersion(m.KubeletVersion)
	if err != nil {
		return true
	}
	return want.Major() == have.Major() && want.Minor() == have.Minor() && want.Patch() == have.Patch()
}
