package distro

import (
	"cmp"
	"path"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Default directories on a node.
const (
	DefaultProvisioningDir = "/var/lib/rancher/capr"
	DefaultSystemAgentDir  = "/var/lib/rancher/agent"
)

// AgentRegistriesFile is the registry configuration with which the node agent pulls installer images.
const AgentRegistriesFile = "/etc/rancher/agent/registries.yaml"

// Dirs are the directories of one cluster's nodes, with defaults filled in.
type Dirs struct {
	// Data is the distribution's data directory.
	Data string
	// Provisioning holds the files that plans put on a machine in addition to the distribution's.
	Provisioning string
	// SystemAgent is the node agent's directory.
	SystemAgent string
}

// DirsFor fills in the defaults of a cluster's data directories.
func DirsFor(r Runtime, dirs rkev1.DataDirectories) Dirs {
	return Dirs{
		Data:         cmp.Or(dirs.K8sDistro, r.DefaultDataDir()),
		Provisioning: cmp.Or(dirs.Provisioning, DefaultProvisioningDir),
		SystemAgent:  cmp.Or(dirs.SystemAgent, DefaultSystemAgentDir),
	}
}

// ConfigPart is the path of a file that the main configuration refers to, such as the audit policy.
func (d Dirs) ConfigPart(name string) string { return path.Join(d.Data, "etc/config-files", name) }

// RegistryTLS is the path of TLS material of one registry; file is tls.crt, tls.key or ca.crt.
func (d Dirs) RegistryTLS(registry, file string) string {
	return path.Join(d.Data, "etc/tls/registries", registry, file)
}

// Manifest is the path of a manifest that servers apply to the cluster.
func (d Dirs) Manifest(name string) string {
	return path.Join(d.Data, "server/manifests/rancher", name)
}

// ServerTLS is the path of a file among the server's certificates.
func (d Dirs) ServerTLS(name string) string { return path.Join(d.Data, "server/tls", name) }

// AuthnWebhook is the path of the kubeconfig with which the API server calls the authorized cluster endpoint.
func (d Dirs) AuthnWebhook() string { return path.Join(d.Data, "kube-api-authn-webhook.yaml") }

// EtcdName is the path of the file with the name of the node's etcd member.
func (d Dirs) EtcdName() string { return path.Join(d.Data, "server/db/etcd/name") }

// IdempotentScript is the path of the script that runs a command at most once.
func (d Dirs) IdempotentScript() string {
	return path.Join(d.Provisioning, "idempotence/idempotent.sh")
}
