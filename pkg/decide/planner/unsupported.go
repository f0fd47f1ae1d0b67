package planner

import (
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// msgUnsupported is about a machine that Drover leaves alone (docs/install.md#linux-only).
const msgUnsupported = "runs Windows, which Drover does not support; delete the Machine, or correct its label " +
	rkev1.CattleOSLabel

// runsWindows reports that the label of a Machine says so. Rancher sets it on machines of Windows.
func (m *Machine) runsWindows() bool { return m.Labels[rkev1.CattleOSLabel] == rkev1.OSWindows }

// isUnsupported reports that Drover sends nothing to a machine, because all its plans are for Linux. No server runs
// Windows, so the label of a server is a mistake. A restore must stop it like other servers.
func (m *Machine) isUnsupported() bool { return m.runsWindows() && !rolesOf(m.Labels).Server() }

// holdUnsupported reports the machines that Drover leaves alone. All others go on without them.
func (p *pass) holdUnsupported() {
	var notes []note
	for _, m := range only(p.unsupported, isLive) {
		p.noteMachine(m, msgUnsupported)
		notes = append(notes, note{m.Name, msgUnsupported})
	}
	if len(notes) > 0 && p.leftOut == nil {
		p.leftOut = waitFor(ReasonLeftOut, about("configuring worker node(s)", notes), WakeMachine, WakePlanSecret)
	}
}
