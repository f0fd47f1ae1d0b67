package planner

import (
	"github.com/Masterminds/semver/v3"
)

// kubeletCurrent reports whether the node runs the version that is asked for. Builds of a distribution are not told apart,
// and a node that nobody has seen yet is believed.
func (p *pass) kubeletCurrent(m *machine) bool {
	if m.KubeletVersion == "" || !p.s.Connected || m.KubeletVersion == p.s.ControlPlane.Spec.KubernetesVersion {
		return true
	}
	want, err := semver.NewVersion(p.s.ControlPlane.Spec.KubernetesVersion)
	if err != nil {
		return true
	}
	have, err := semver.NewVersion(m.KubeletVersion)
	if err != nil {
		return true
	}
	return want.Major() == have.Major() && want.Minor() == have.Minor() && want.Patch() == have.Patch()
}
