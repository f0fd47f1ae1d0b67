package controllers

import (
	"time"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// DefaultBootstrapTokenTTL is the BootstrapTokenTTL of a server that is told none by flags.
const DefaultBootstrapTokenTTL = 30 * time.Minute

// Settings are server-wide. The command line's flags have the same names in lower case with dashes.
type Settings struct {
	// ServerURL is the https address under which machines reach the server, without a path.
	ServerURL string
	// CACerts are the authorities, in PEM, that sign the server's certificate; empty when every machine trusts them anyway.
	CACerts string
	// SystemDefaultRegistry prefixes images of clusters that name no registry of their own.
	SystemDefaultRegistry string
	// SystemDefaultRegistryPullSecrets name Secrets of that registry, in namespace drover-system. Images of Drover's own that come from another registry are
	// pulled with those of them that list that one.
	SystemDefaultRegistryPullSecrets []string
	// MachineProvisionImage is the image of rancher-machine.
	MachineProvisionImage string
	// MachineProvisionImagePullPolicy is Always, IfNotPresent or Never.
	MachineProvisionImagePullPolicy string
	// SystemAgentInstallerImage prefixes the installer image of a distribution.
	SystemAgentInstallerImage string
	// DeleteMachineOnFailureAfter is how long a machine that could not be made is kept before it is replaced; 0 replaces it at once.
	DeleteMachineOnFailureAfter time.Duration
	// BootstrapTokenTTL is how long the token in an install script is good for after its last use, once the machine's agent
	// has reported. Zero is until the machine has become a node.
	BootstrapTokenTTL time.Duration
	// ClusterAgentImage is the image of the agent inside clusters, which is Drover's own; empty is drover-io/drover of the server's version.
	ClusterAgentImage string
	// RegistrationTokenTTL is after how long the token of a ClusterRegistrationToken is replaced that does not say so itself: 0 is 30 days, less
	// is never.
	RegistrationTokenTTL time.Duration
	// RegistrationTokenGracePeriod is for how long the token before is still good; 0 is 3 hours.
	RegistrationTokenGracePeriod time.Duration
	// DeletionDeadline is after how long a deletion that does not proceed is reported as overdue.
	DeletionDeadline time.Duration
	// ProxyEnv are proxy variables that every machine job gets, by name.
	ProxyEnv map[string]string
}

// DefaultMachineProvisionImage runs the release of rancher-machine whose driver flags are compiled in.
const DefaultMachineProvisionImage = "rancher/machine:v0.15.0-rancher145"

// MachineImage is the image of the Jobs that make machines, in the default registry if there is one. An image that names a registry, other than Docker
// Hub, stays in that one.
func (s Settings) MachineImage() string {
	image := s.MachineProvisionImage
	if image == "" {
		image = DefaultMachineProvisionImage
	}
	return naming.ImageIn(s.SystemDefaultRegistry, image)
}

// SystemNamespace is Drover's own.
const SystemNamespace = "drover-system"

// Namespaces that must exist: one for clusters by default, one of our own, and one for credentials that clusters of several
// namespaces share.
func Namespaces() []string { return []string{"fleet-default", SystemNamespace, "cattle-global-data"} }
