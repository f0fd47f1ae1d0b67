package planner

import (
	"github.com/Masterminds/semver/v3"
)

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
