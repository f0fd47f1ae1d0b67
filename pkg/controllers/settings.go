package controllers

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/controllers/cluster"
	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/planner/render"
	"github.com/drover-io/drover/pkg/decide/registration"
	"github.com/drover-io/drover/pkg/kube/rival"
)

// DefaultBootstrapTokenTTL is the BootstrapTokenTTL of a server without that flag.
const DefaultBootstrapTokenTTL = 30 * time.Minute

// Settings apply to the whole server. The flags of the command line have the same names in lower case with dashes.
type Settings struct {
	// ServerURL is the https address at which machines reach the server, without a path.
	ServerURL string
	// CACerts holds the authorities, in PEM, that sign the server's certificate. Empty if every machine already trusts
	// them.
	CACerts string
	// SystemDefaultRegistry prefixes images of clusters that name no registry of their own.
	SystemDefaultRegistry string
	// SystemDefaultRegistryPullSecrets are names of Secrets for that registry, in namespace drover-system. If an image
	// of Drover comes from another registry, Drover uses those Secrets that list that registry.
	SystemDefaultRegistryPullSecrets []string
	// MachineProvisionImage is the image of rancher-machine.
	MachineProvisionImage string
	// MachineProvisionImagePullPolicy is Always, IfNotPresent or Never.
	MachineProvisionImagePullPolicy string
	// SystemAgentInstallerImage prefixes the installer image of a distribution.
	SystemAgentInstallerImage string
	// DeleteMachineOnFailureAfter is how long Drover keeps a machine that could not be made before it replaces it. 0
	// replaces it at once.
	DeleteMachineOnFailureAfter time.Duration
	// BootstrapTokenTTL is how long the token of an install script stays valid after its last use, once the machine's
	// agent has reported. With zero, it is valid until the machine has become a node.
	BootstrapTokenTTL time.Duration
	// ClusterAgentImage is the image of the agent inside clusters, which is Drover's own. Empty means drover-io/drover
	// with the server's version.
	ClusterAgentImage string
	// ClusterAutoscalerImage is the image of the cluster-autoscaler that Drover deploys in clusters whose pools have
	// sizes for it. {minor} stands for the minor version of the cluster, such as 1.36. Empty deploys none.
	ClusterAutoscalerImage string
	// RegistrationTokenTTL is the age at which Drover replaces the token of a ClusterRegistrationToken without its own
	// spec.ttl. 0 means 30 days, a negative value never.
	RegistrationTokenTTL time.Duration
	// RegistrationTokenGracePeriod is how long the previous token stays valid; 0 means 3 hours.
	RegistrationTokenGracePeriod time.Duration
	// RegistrationCommands is where complete registration commands are: secret (or empty) for the Secret of the token
	// alone, status for the status of the ClusterRegistrationToken, too.
	RegistrationCommands string
	// AgentUpgrades is manual (or empty) to upgrade the agents of nodes only on request, auto to upgrade all of them to
	// the server's agent.
	AgentUpgrades string
	// InsecureNodeDrivers permits node drivers without a SHA-256 or SHA-512, or with an address without TLS.
	InsecureNodeDrivers bool
	// DeletionDeadline is the time after which a deletion without progress is reported as overdue.
	DeletionDeadline time.Duration
	// ProxyEnv holds the proxy variables of every machine Job, by name.
	ProxyEnv map[string]string
}

// Values of Settings.AgentUpgrades.
const (
	AgentUpgradesManual = "manual"
	AgentUpgradesAuto   = "auto"
)

// DefaultMachineProvisionImage contains the release of rancher-machine whose driver flags are compiled in.
const DefaultMachineProvisionImage = "rancher/machine:v0.15.0-rancher145"

// MachineImage returns the image of the Jobs that make machines, in the default registry if there is one. An image that
// names a registry other than Docker Hub keeps it.
func (s Settings) MachineImage() string {
	image := s.MachineProvisionImage
	if image == "" {
		image = DefaultMachineProvisionImage
	}
	return naming.ImageIn(s.SystemDefaultRegistry, image)
}

// SystemNamespace is Drover's own namespace.
const SystemNamespace = rival.DroverNamespace

// Namespaces returns the namespaces that must exist: the default one for clusters, Drover's own, and one for
// credentials that clusters of several namespaces share.
func Namespaces() []string {
	return []string{provv1.DefaultWorkspaceNamespace, SystemNamespace, provv1.GlobalDataNamespace}
}

// Endpoints returns the address and the authority of the server through which clusters are reached.
func (s Settings) Endpoints() cluster.Endpoints {
	return cluster.Endpoints{Server: s.ServerURL, Authority: []byte(s.CACerts)}
}

// AgentSource returns what the manifest of the agents inside clusters is made from.
func (s Settings) AgentSource(image string) clustermanifest.Source {
	tokens := s.Registration(false)
	return clustermanifest.Source{
		ServerURL: tokens.ServerURL, CAChecksum: tokens.CAChecksum, Image: image, Registry: s.SystemDefaultRegistry,
		PullSecrets: s.Render().RegistryPullSecrets,
	}
}

// Registration returns the settings of registration tokens. agents means that Drover updates agents, so they follow
// their token.
func (s Settings) Registration(agents bool) registration.Settings {
	return registration.Settings{
		AgentsFollow: agents,
		ServerURL:    strings.TrimRight(s.ServerURL, "/"), CAChecksum: naming.CAChecksum(s.CACerts),
		TTL: s.RegistrationTokenTTL, GracePeriod: s.RegistrationTokenGracePeriod, Commands: s.RegistrationCommands,
	}
}

// Render returns the settings that plans depend on.
func (s Settings) Render() render.Settings {
	settings := render.Settings{InstallerImage: s.SystemAgentInstallerImage,
		SystemDefaultRegistry: s.SystemDefaultRegistry}
	for _, name := range s.SystemDefaultRegistryPullSecrets {
		settings.RegistryPullSecrets = append(settings.RegistryPullSecrets,
			types.NamespacedName{Namespace: SystemNamespace, Name: name})
	}
	return settings
}
