package distro

import (
	"path"
	"strings"
)

// Runtime is one of the two distributions. Paths, image names and annotations contain the value, so it is part of the
// wire format.
type Runtime string

// The distributions.
const (
	RKE2 Runtime = "rke2"
	K3s  Runtime = "k3s"
)

// RuntimeOf returns the distribution of a Kubernetes version such as v1.36.2+k3s1. Every version that does not contain
// k3s is RKE2. Existing manifests rely on that.
func RuntimeOf(kubernetesVersion string) Runtime {
	if strings.Contains(kubernetesVersion, string(K3s)) {
		return K3s
	}
	return RKE2
}

// EnvPrefix is the prefix of the environment variables of the distribution and its installer: RKE2 or K3S.
func (r Runtime) EnvPrefix() string { return strings.ToUpper(string(r)) }

// Command is the name of the distribution's program.
func (r Runtime) Command() string { return string(r) }

// ServerUnit is the systemd unit of a server, without the suffix .service.
func (r Runtime) ServerUnit() string {
	if r == K3s {
		return "k3s"
	}
	return "rke2-server"
}

// AgentUnit is the systemd unit of a worker, without the suffix .service.
func (r Runtime) AgentUnit() string {
	if r == K3s {
		return "k3s-agent"
	}
	return "rke2-agent"
}

// SupervisorPort is the port at which servers accept joining nodes: the port of a join URL.
func (r Runtime) SupervisorPort() int {
	if r == K3s {
		return 6443
	}
	return 9345
}

// DefaultDataDir is the distribution's data directory when the cluster does not set one.
func (r Runtime) DefaultDataDir() string { return "/var/lib/rancher/" + string(r) }

// ConfigDir is the directory of the distribution's configuration. It does not move with the data directory.
func (r Runtime) ConfigDir() string { return "/etc/rancher/" + string(r) }

// ConfigFile is the drop-in file with Drover's whole configuration.
func (r Runtime) ConfigFile() string {
	return path.Join(r.ConfigDir(), "config.yaml.d/50-rancher.yaml")
}

// RegistriesFile is containerd's registry configuration.
func (r Runtime) RegistriesFile() string { return path.Join(r.ConfigDir(), "registries.yaml") }

// AdminKubeconfig is the kubeconfig that the distribution writes on servers.
func (r Runtime) AdminKubeconfig() string { return path.Join(r.ConfigDir(), string(r)+".yaml") }

// Kubectl is the command that starts the kubectl of the distribution, with its leading arguments. The installer of K3s
// makes no link named kubectl if the host has another kubectl, so K3s is asked for its own.
func (r Runtime) Kubectl(dataDir string) []string {
	if r == K3s {
		return []string{r.Command(), "kubectl"}
	}
	return []string{path.Join(dataDir, "bin/kubectl")}
}

// KillAllScript is the name of the script that stops the distribution and everything that it started.
func (r Runtime) KillAllScript() string { return string(r) + "-killall.sh" }
