package planner

import (
	"slices"
	"strings"

	"pgregory.net/rapid"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// olderVersion is the version of the cluster when the snapshots of the model were taken.
func olderVersion(now string) string {
	if distro.RuntimeOf(now) == distro.K3s {
		return "v1.35.1+k3s1"
	}
	return "v1.35.1+rke2r1"
}

// restoreVersion may let the request bring the version of the snapshot with it, in the same write.
func (m *opsModel) restoreVersion(rt *rapid.T) {
	spec := &m.cp.Spec
	mode := rapid.SampledFrom([]rkev1.RestoreMode{"", "none", "kubernetesVersion"}).Draw(rt, "mode")
	if spec.ETCDSnapshotRestore.RestoreRKEConfig = mode; mode == rkev1.RestoreModeKubernetesVersion {
		spec.KubernetesVersion = olderVersion(spec.KubernetesVersion)
	}
	m.noteConfiguration()
}

// revertVersion is a user or a tool that sets the version back.
func (m *opsModel) revertVersion(*rapid.T) {
	m.cp.Generation++
	m.cp.Spec.KubernetesVersion = map[bool]string{true: k3sVersion, false: rke2Version}[distro.RuntimeOf(
		m.cp.Spec.KubernetesVersion) == distro.K3s]
	m.noteConfiguration()
}

// noteConfiguration compares the spec with the snapshots, as the planner's gather does.
func (m *opsModel) noteConfiguration() {
	m.snapshots = slices.Clone(m.snapshots) // earlier views keep theirs
	for i := range m.snapshots {
		m.snapshots[i].ConfigurationProblem = ""
		if m.cp.Spec.KubernetesVersion != olderVersion(m.cp.Spec.KubernetesVersion) {
			m.snapshots[i].ConfigurationProblem = "the version was changed"
		}
	}
}

// isHeldBack reports that a plan brings the version of a snapshot to a machine before the restore of that snapshot has
// stopped anything (invariant 30).
func (m *opsModel) isHeldBack(before, after plan.NodePlan) bool {
	request, status := m.cp.Spec.ETCDSnapshotRestore, &m.cp.Status
	if !configures(request) || !installs(after, olderVersion(m.cp.Spec.KubernetesVersion)) ||
		len(before.Instructions) == 0 || installs(before, olderVersion(m.cp.Spec.KubernetesVersion)) {
		return false
	}
	record := kindRestore.recordIn(status)
	begun := status.ETCDSnapshotRestore != nil && *status.ETCDSnapshotRestore == *request
	return !begun || !record.Stopped && (record.Step == "" || record.Step == string(rkev1.ETCDSnapshotPhaseStarted))
}

// installs reports that a plan installs a version.
func installs(p plan.NodePlan, version string) bool {
	return slices.ContainsFunc(p.Instructions, func(i plan.OneTimeInstruction) bool {
		return strings.HasSuffix(i.Image, strings.ReplaceAll(version, "+", "-"))
	})
}
