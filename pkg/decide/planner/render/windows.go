package render

import (
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
)

const permissionsInstruction = "Set permissions for RKE2 installation files on Windows"

// fileWindowsPermissions delivers the script that restricts access to RKE2's files. It waits for the control plane,
// because the files exist only after the node joined.
func (m *machinePlan) fileWindowsPermissions() error {
	if !m.restrictsWindows() {
		return nil
	}
	file := fileOf(distro.WindowsPermissionsScript, []byte(windowsPermissions+m.movedOnWindows()))
	file.Dynamic, file.Minor = true, true
	m.addFile(file)
	return nil
}

// movedOnWindows extends the script to directories that the cluster has moved. The default directories may still have
// files.
func (m *machinePlan) movedOnWindows() string {
	var script strings.Builder
	for _, moved := range []string{m.spec.DataDirectories.K8sDistro, m.spec.DataDirectories.SystemAgent} {
		if moved != "" {
			local := `c:` + strings.ReplaceAll(moved, "/", `\`)
			script.WriteString("Restrict-Access -Path '" + strings.ReplaceAll(local, "'", "''") +
				"' -Directory $true\n")
		}
	}
	return script.String()
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
