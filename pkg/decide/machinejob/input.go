package machinejob

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Machine is one infrastructure machine.
type Machine struct {
	// APIVersion and Kind of the object, such as rke-machine.cattle.io/v1 and Amazonec2Machine.
	APIVersion, Kind string
	Namespace, Name  string
	UID              string
	// Spec is the object's spec: fields of the driver, "common" and "providerID".
	Spec map[string]any
	// Status is what was reported last.
	Status rkev1.RKEMachineStatus
	// HostnameLimit is the longest host name that is wanted, in bytes. Zero means no wish.
	HostnameLimit int
	// CAPIMachineName is the Machine of Cluster API that the object belongs to, from its own label. Empty until known.
	CAPIMachineName string
	// Deleting, Guarded (it has our finalizer), Paused and Forced (given up by somebody) are marks in its metadata.
	Deleting, Guarded, Paused, Forced bool
	// Protection is the value of its annotation drover.io/protect.
	Protection string
}

// ProviderID is the identity of the node, empty until it joined.
func (m Machine) ProviderID() string {
	id, _ := m.Spec[providerIDKey].(string)
	return id
}

// CredentialReference is the credential that the spec names, or else the one that the machine was made with.
func (m Machine) CredentialReference() string {
	common, _ := m.Spec[commonKey].(map[string]any)
	if reference, _ := common["cloudCredentialSecretName"].(string); reference != "" {
		return reference
	}
	return m.Status.CloudCredentialSecretName
}

// MayUseCredential reports that nobody has to be asked whether the machine's cluster may use the credential: it is in the machine's own
// namespace, or it is not used any more because the machine is there, or it is the one that the machine was made with and takes it away
// again. A machine that nobody could remove would be worse than one more use.
func (m Machine) MayUseCredential() bool {
	reference := m.CredentialReference()
	namespace, _ := CredentialRef(reference, m.Namespace)
	switch {
	case namespace == m.Namespace:
		return true
	case m.Deleting:
		return m.Status.CloudCredentialSecretName == reference
	default:
		return m.ProviderID() != ""
	}
}

// Cluster is the cluster that a machine belongs to.
type Cluster struct {
	// Name of the Cluster API cluster.
	Name string
	// ProvisioningName is the name of the cluster that its user made.
	ProvisioningName string
	// ManagementName is the name that the cluster has in the management API, such as "c-m-abcdefgh". Empty until known.
	ManagementName string
}

// Settings are what an installation decides for all machines.
type Settings struct {
	// Image of the container, complete with its registry.
	Image string
	// PullPolicy of the image: Always, IfNotPresent or Never. Anything else is Always.
	PullPolicy string
	// Registry is the default one of the installation; empty for none. PullSecrets are Secrets for it, and for the registries that they list.
	Registry    string
	PullSecrets []types.NamespacedName
	// Proxy are environment variables, by name, that every driver gets.
	Proxy map[string]string
	// Certificates are authorities that the container trusts, PEM by name of the file.
	Certificates map[string]string
	// CreateDeadline and RemoveDeadline bound a Job from its start. Zero means no bound.
	CreateDeadline, RemoveDeadline time.Duration
	// DeleteFailedAfter is how long a machine that could not be made is kept before it is replaced.
	DeleteFailedAfter time.Duration
}

// Input is what Render needs.
type Input struct {
	Machine Machine
	Driver  Driver
	Cluster Cluster
	// BootstrapSecret holds the install script.
	BootstrapSecret string
	// Credential is the data of the credential's Secret. Nil when the machine needs none.
	Credential map[string][]byte
	// PullSecrets are the contents of the settings' Secrets of type kubernetes.io/dockerconfigjson that are there.
	PullSecrets map[types.NamespacedName][]byte
	Settings    Settings
}
