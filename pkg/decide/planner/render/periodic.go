package render

import (
	"fmt"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// Names of periodic instructions. The planner reads their output by these names.
const (
	// CaptureAddress prints the etcd members with their client URLs, as JSON among other lines.
	CaptureAddress = "capture-address"
	// EtcdName prints the name of the node's etcd member.
	EtcdName = "etcd-name"
	// CaptureKubeconfig prints the administrator's kubeconfig. Its output is a credential.
	CaptureKubeconfig = "capture-kubeconfig"
)

// capturePeriod is the period of the instructions above, in seconds.
const capturePeriod = 600

// periodicInstructions report facts that only the node knows. An init node without a control plane never registers as a
// Node, so its address is read from etcd. The kubeconfig of a cluster that may have no agent comes from the init node.
// If the init node serves no API, it comes from the servers without etcd.
func (m *machinePlan) periodicInstructions() error {
	if m.in.InitNode && m.roles.OnlyETCD() && !m.in.Machine.JoinURLAutosetDisabled {
		m.periodic(CaptureAddress, "sh", "-c", fmt.Sprintf(
			"curl -f --retry 100 --retry-delay 5 --cacert %s https://localhost:%d/db/info | grep 'clientURLs'",
			m.dirs.ServerTLS("server-ca.crt"), m.supervisorPort()))
		m.periodic(EtcdName, "sh", "-c", "cat "+m.dirs.EtcdName())
	}
	if !m.in.ClusterAgent.OnlyWay && (m.in.InitNode && m.roles.ControlPlane || m.roles.OnlyControlPlane()) {
		m.periodic(CaptureKubeconfig, "cat", m.runtime.AdminKubeconfig())
	}
	return nil
}

func (m *machinePlan) periodic(name, command string, args ...string) {
	m.out.PeriodicInstructions = append(m.out.PeriodicInstructions, plan.PeriodicInstruction{
		CommonInstruction: plan.CommonInstruction{Name: name, Command: command, Args: args},
		PeriodSeconds:     capturePeriod,
	})
}
