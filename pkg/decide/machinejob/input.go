package machinejob

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Machine is one infrastructure machine.
type Machine struct {
	// APIVersion and Kind are those of the object, such as rke-machine.cattle.io/v1 and Amazonec2Machine.
	APIVersion, Kind string
	Namespace, Name  string
	UID              string
	// Spec is the object's spec: the driver's fields, "common" and "providerID".
	Spec map[string]any
	// Status is the last reported status.
	Status rkev1.RKEMachineStatus
	// HostnameLimit is the length limit of the host name, in bytes. Zero means no limit.
	HostnameLimit int
	// CAPIMachineName is the Cluster API Machine of the object, from the object's label. Empty until known.
	CAPIMachineName string
	// Deleting, Guarded (it has Drover's finalizer), Paused and Forced (the user gave it up) come from its metadata.
	Deleting, Guarded, Paused, Forced bool
	// Protection is the value of the machine's annotation drover.io/protect.
	Protection string
}

// ProviderID identifies the node. It is empty until the node has joined.
func (m Machine) ProviderID() string {
	id, _ := m.Spec[providerIDKey].(string)
	return id
}

// CredentialReference is the credential in the spec, or else the credential that created the machine.
func (m Machine) CredentialReference() string {
	common, _ := m.Spec[commonKey].(map[string]any)
	if reference, _ := common["cloudCredentialSecretName"].(string); reference != "" {
		return reference
	}
	return m.Status.CloudCredentialSecretName
}

// MayUseCredential reports whether the machine may use the credential without a grant for its cluster. A credential in
// the machine's namespace needs no grant. An existing machine no longer needs its credential. The removal of a machine
// may use the credential that created it. A machine that cannot be removed would be worse than one more use.
func (m Machine) MayUseCredential() bool {
	reference := m.CredentialReference()
	namespace, _ := topology.CredentialSecret(m.Namespace, reference)
	switch {
	case namespace == m.Namespace:
		return true
	case m.Deleting:
		return m.Status.CloudCredentialSecretName == reference
	default:
		return m.ProviderID() != ""
	}
}

// Cluster is the cluster of a machine.
type Cluster struct {
	// Name is the name of the Cluster API cluster.
	Name string
	// ProvisioningName is the name of the cluster that the user created.
	ProvisioningName string
	// ManagementName is the cluster's name in the management API, such as "c-m-abcdefgh". Empty until known.
	ManagementName string
}

// Settings are the installation's settings for all machines.
type Settings struct {
	// Image is the container's image, including its registry.
	Image string
	// PullPolicy is the image's pull policy: Always, IfNotPresent or Never. Any other value means Always.
	PullPolicy string
	// Registry is the installation's default registry; empty for none. PullSecrets are Secrets for it and for the
	// registries that they list.
	Registry    string
	PullSecrets []types.NamespacedName
	// Proxy are environment variables for every driver, by name.
	Proxy map[string]string
	// Certificates are the authorities that the container trusts, in PEM, by file name.
	Certificates map[string]string
	// CreateDeadline and RemoveDeadline limit a Job's time from its start. Zero means no limit.
	CreateDeadline, RemoveDeadline time.Duration
	// DeleteFailedAfter is how long Drover keeps a machine whose creation failed, before it replaces the machine.
	DeleteFailedAfter time.Duration
}

// Input is the input of the Render functions.
type Input struct {
	Machine Machine
	Driver  Driver
	Cluster Cluster
	// BootstrapSecret holds the install script.
	BootstrapSecret string
	// Credential is the data of the credential's Secret. Nil when the machine needs none.
	Credential map[string][]byte
	// PullSecrets are the contents of the settings' existing Secrets of type kubernetes.io/dockerconfigjson.
	PullSecrets map[types.NamespacedName][]byte
	// Extended binds ExtensionRole to the Job's account.
	Extended bool
	Settings Settings
}
