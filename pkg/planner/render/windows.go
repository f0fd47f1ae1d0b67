package render

import (
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/distro"
)

const permissionsInstruction = "Set permissions for RKE2 installation files on Windows"

// fileWindowsPermissions delivers the script that restricts access to RKE2's files. It waits for the control plane, because
// the files are there only after the node joined.
func (m *machinePlan) fileWindowsPermissions() error {
	if !m.restrictsWindows() {
		return nil
	}
	file := fileOf(distro.WindowsPermissionsScript, []byte(windowsPermissions))
	file.Dynamic, file.Minor = true, true
	m.addFile(file)
	return nil
}

func (m *machinePlan) windowsPermissions() error {
	if !m.restrictsWindows() {
		return nil
	}
	m.out.Instructions = append(m.out.Instructions, plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
		Name:    permissionsInstruction,
		Command: "powershell.exe",
		Args:    []string{"-File", distro.WindowsPermissionsScript},
	}})
	return nil
}

func (m *machinePlan) restrictsWindows() bool {
	return m.in.Machine.Windows && m.in.ControlPlane.Initialized && !m.spec.UnmanagedConfig
}
