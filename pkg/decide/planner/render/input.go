package render

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// Input is everything that one plan depends on. Two equal inputs give byte-identical plans.
type Input struct {
	// Version is the machine's pinned rendering version; [Version] for a machine without a plan.
	Version string
	// ControlPlane is the cluster's configuration.
	ControlPlane ControlPlane
	// Machine has the facts about the plan's machine.
	Machine Machine
	// InitNode is true for the one machine that starts the cluster instead of joining it.
	InitNode bool
	// JoinURL is the server to join, https://<host>:<supervisor port>. It must be empty for the init node and set for
	// all others.
	JoinURL string
	// Tokens are the cluster's join tokens. The zero value renders no token.
	Tokens Tokens
	// Settings are the server-wide settings that plans depend on.
	Settings Settings
	// Release describes the Kubernetes version to run.
	Release distro.Release
	// Objects are the Secrets and ConfigMaps that the configuration refers to; see [References].
	Objects Objects
	// ClusterAgent is the manifest of the agent that runs inside the downstream cluster.
	ClusterAgent ClusterAgent
}

// ControlPlane is the part of an RKEControlPlane that plans depend on.
type ControlPlane struct {
	// Namespace and Name are those of the RKEControlPlane. The name is also the cluster's.
	Namespace, Name string
	// Annotations are those of the RKEControlPlane (cluster spec for snapshots, the RKE2 prime switch).
	Annotations map[string]string
	// Spec is read-only for the renderer and may be shared.
	Spec rkev1.RKEControlPlaneSpec
	// ConfigGeneration is status.configGeneration, which each restore increments. It is part of the restart stamp.
	ConfigGeneration int64
	// Initialized is status.initialization.controlPlaneInitialized.
	Initialized bool
}

// Machine has the facts about one machine, from its CAPI Machine and RKEBootstrap. They never come from objects that
// the node's own credentials can write.
type Machine struct {
	// Namespace and Name are those of the CAPI Machine.
	Namespace, Name string
	// UID is the UID of the CAPI Machine. It becomes the node label that links Node and Machine.
	UID types.UID
	// Labels are those of the CAPI Machine. Machine selectors match them.
	Labels map[string]string
	// Annotations are those of the RKEBootstrap: addresses, node labels and node taints.
	Annotations map[string]string
	// Roles are the roles of the node.
	Roles Roles
	// NodeName is the user's name for the node. Empty means the host name.
	NodeName string
	// Provisioned is true when the infrastructure kind belongs to rke-machine.cattle.io, so that the driver knows
	// addresses.
	Provisioned bool
	// Driver is what the machine driver recorded. Nil while it has recorded nothing, and for machines without a driver.
	Driver *Driver
	// JoinURLAutosetDisabled is true when the user publishes join URLs manually. The node then captures no address.
	JoinURLAutosetDisabled bool
	// AgentPin is the stored [AgentPin] of the machine, empty without one.
	AgentPin string
}

// Roles are the roles of a node. A machine without a role has no plan.
type Roles struct {
	ETCD, ControlPlane, Worker bool
}

// Server reports whether the node runs the server process (etcd, control plane or both).
func (r Roles) Server() bool { return r.ETCD || r.ControlPlane }

// OnlyETCD reports whether the node has etcd but no control plane. It may also be a worker.
func (r Roles) OnlyETCD() bool { return r.ETCD && !r.ControlPlane }

// OnlyControlPlane reports whether the node has a control plane but no etcd. It may also be a worker.
func (r Roles) OnlyControlPlane() bool { return r.ControlPlane && !r.ETCD }

// OnlyWorker reports whether the node runs workloads only.
func (r Roles) OnlyWorker() bool { return r.Worker && !r.Server() }

// String lists the roles.
func (r Roles) String() string {
	var names []string
	for _, role := range []struct {
		has  bool
		name string
	}{{r.ETCD, "etcd"}, {r.ControlPlane, "control-plane"}, {r.Worker, "worker"}} {
		if role.has {
			names = append(names, role.name)
		}
	}
	return strings.Join(names, ",")
}

// Driver is the part of a machine driver's saved configuration that addresses depend on; see [DecodeDriver].
type Driver struct {
	// Name is the name of the driver, for example amazonec2.
	Name string
	// IPAddress is the external address, and PrivateIPAddress the internal one. IPv6Address is added to the internal
	// ones.
	IPAddress, PrivateIPAddress, IPv6Address string
}

// Tokens are the secrets with which nodes join. They print as a mask.
type Tokens struct {
	// Server is the token of servers, and Agent the token of workers. They never change after the first delivery of a
	// plan.
	Server, Agent string
}

// String hides the tokens.
func (t Tokens) String() string { return "Tokens{…}" }

// GoString hides the tokens.
func (t Tokens) GoString() string { return t.String() }

// Settings are the server-wide settings that plans depend on.
type Settings struct {
	// InstallerImage is the prefix of the installer image, completed with runtime and version. The default is
	// [DefaultInstallerImage].
	InstallerImage string
	// SystemDefaultRegistry is the registry of clusters that name none; may be empty.
	SystemDefaultRegistry string
	// RegistryPullSecrets are dockerconfigjson Secrets for SystemDefaultRegistry, in order of preference. Unusable ones
	// are skipped with a warning.
	RegistryPullSecrets []types.NamespacedName
	// RKE2Prime is the default of the RKE2 prime switch.
	RKE2Prime bool
}

// DefaultInstallerImage is the default prefix of installer images.
const DefaultInstallerImage = "rancher/system-agent-installer-"

// ClusterAgent is the manifest of the agent inside the downstream cluster.
type ClusterAgent struct {
	// Manifest is YAML; empty means that there is nothing to install.
	Manifest string
	// PreBootstrap is true while Manifest is the reduced form that every server gets before the cluster is up.
	PreBootstrap bool
	// OnlyWay is true when Drover reaches the cluster only through that agent. Servers then do not print their
	// kubeconfig.
	OnlyWay bool `json:",omitzero"`
}

// Objects are the contents of the Secrets and ConfigMaps that a cluster's configuration refers to. An object that is
// not in the map does not exist.
type Objects struct {
	Secrets    map[types.NamespacedName]Secret
	ConfigMaps map[types.NamespacedName]ConfigMap
}

// Secret is the part of a Secret that rendering needs. It prints as a mask.
type Secret struct {
	Type corev1.SecretType
	Data map[string][]byte
	// Annotations list the clusters that may use the Secret.
	Annotations map[string]string
	// Denied is why the cluster's configuration may not use the Secret of another namespace; empty when it may. Data
	// may be set anyway, for the server's own settings.
	Denied string
}

// String hides the data.
func (s Secret) String() string { return fmt.Sprintf("Secret{%s, %d keys}", s.Type, len(s.Data)) }

// GoString hides the data.
func (s Secret) GoString() string { return s.String() }

// ConfigMap is the part of a ConfigMap that rendering needs. Data has data and binaryData.
type ConfigMap struct {
	Data        map[string][]byte
	Annotations map[string]string
}

// Warning reports that a suspicious part of the configuration was passed through or omitted. It never contains a secret
// value.
type Warning struct {
	// Reason is a constant in CamelCase, for example UnknownConfigKey.
	Reason string
	// Field is the path in the cluster's spec, for example spec.rkeConfig.machineGlobalConfig.cni.
	Field string
	// Message is a sentence built from stable data.
	Message string
}

// PendingError means that a plan cannot be rendered yet, because a fact is missing. It is not a failure: the caller
// waits for the fact.
type PendingError struct {
	// Message names the machine and the missing fact.
	Message string
}

// Error returns the message.
func (e *PendingError) Error() string { return e.Message }
