package render

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/distro"
)

// Input is everything one plan depends on. Two equal inputs give byte-identical plans.
type Input struct {
	// Version is the rendering version the machine is pinned to; [Version] for a machine without a plan.
	Version string
	// ControlPlane is the cluster's configuration.
	ControlPlane ControlPlane
	// Machine holds the facts of the machine the plan is for.
	Machine Machine
	// InitNode is true for the one machine that starts the cluster instead of joining it.
	InitNode bool
	// JoinURL is the server to join, https://<host>:<supervisor port>. Must be empty for the init node and set for all others.
	JoinURL string
	// Tokens are the cluster's join tokens. The zero value renders no token.
	Tokens Tokens
	// Settings are the server-wide settings that plans depend on.
	Settings Settings
	// Release describes the Kubernetes version to run.
	Release distro.Release
	// Objects are the Secrets and ConfigMaps the configuration refers to; see [References].
	Objects Objects
	// ClusterAgent is the manifest of the agent that runs inside the downstream cluster.
	ClusterAgent ClusterAgent
}

// ControlPlane is the part of an RKEControlPlane that plans depend on.
type ControlPlane struct {
	// Namespace and Name of the RKEControlPlane; the name is also the cluster's.
	Namespace, Name string
	// Annotations of the RKEControlPlane (cluster spec for snapshots, the RKE2 prime switch).
	Annotations map[string]string
	// Spec is read-only for the renderer and may be shared.
	Spec rkev1.RKEControlPlaneSpec
	// ConfigGeneration is status.configGeneration, raised by one after each restore; part of the restart stamp.
	ConfigGeneration int64
	// Initialized is status.initialization.controlPlaneInitialized.
	Initialized bool
}

// FromControlPlane copies the references (not the contents) of the parts plans depend on out of the API object.
func FromControlPlane(cp *rkev1.RKEControlPlane) ControlPlane {
	initialized := cp.Status.Initialization.ControlPlaneInitialized
	return ControlPlane{
		Namespace:        cp.Namespace,
		Name:             cp.Name,
		Annotations:      cp.Annotations,
		Spec:             cp.Spec,
		ConfigGeneration: cp.Status.ConfigGeneration,
		Initialized:      initialized != nil && *initialized,
	}
}

// Machine holds the facts of one machine, taken from its CAPI Machine and RKEBootstrap; never from what the node's own
// credentials can write.
type Machine struct {
	// Namespace and Name of the CAPI Machine.
	Namespace, Name string
	// UID of the CAPI Machine. It becomes the node label by which Node and Machine are matched.
	UID types.UID
	// Labels of the CAPI Machine; machine selectors are matched against these.
	Labels map[string]string
	// Annotations of the RKEBootstrap: addresses, node labels and node taints.
	Annotations map[string]string
	// Roles of the node.
	Roles Roles
	// Windows is true when the operating system label says windows; everything else is Linux.
	Windows bool
	// NodeName is the name the user chose for the node; empty leaves it to the host name.
	NodeName string
	// Provisioned is true when the infrastructure kind belongs to rke-machine.cattle.io, so that the driver knows addresses.
	Provisioned bool
	// Driver is what the machine driver recorded, nil while nothing is recorded or for machines without a driver.
	Driver *Driver
	// JoinURLAutosetDisabled is true when the operator publishes join URLs by hand: no address is captured on the node.
	JoinURLAutosetDisabled bool
}

// Roles of a node. Without any role a machine has no plan.
type Roles struct {
	ETCD, ControlPlane, Worker bool
}

// Server reports whether the node runs the server process (etcd, control plane or both).
func (r Roles) Server() bool { return r.ETCD || r.ControlPlane }

// OnlyETCD reports whether the node has etcd but no control plane; it may be a worker too.
func (r Roles) OnlyETCD() bool { return r.ETCD && !r.ControlPlane }

// OnlyControlPlane reports whether the node has a control plane but no etcd; it may be a worker too.
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
	// Name of the driver, for example amazonec2.
	Name string
	// IPAddress is the external, PrivateIPAddress the internal address; IPv6Address is added to the internal ones.
	IPAddress, PrivateIPAddress, IPv6Address string
}

// Tokens are the secrets by which nodes join. They print as a mask.
type Tokens struct {
	// Server is the token of servers, Agent the one of workers. Both never change once a plan was delivered.
	Server, Agent string
}

// String hides the tokens.
func (t Tokens) String() string { return "Tokens{…}" }

// GoString hides the tokens.
func (t Tokens) GoString() string { return t.String() }

// Settings are the server-wide settings that plans depend on.
type Settings struct {
	// InstallerImage is the prefix of the installer image, completed with runtime and version; default
	// [DefaultInstallerImage].
	InstallerImage string
	// SystemDefaultRegistry is the registry used when the cluster names none; may be empty.
	SystemDefaultRegistry string
	// RegistryPullSecrets name dockerconfigjson Secrets for SystemDefaultRegistry, in order of preference. Unusable ones are
	// skipped with a warning.
	RegistryPullSecrets []types.NamespacedName
	// RKE2Prime is the default of the RKE2 prime switch.
	RKE2Prime bool
}

// DefaultInstallerImage is the prefix of the installer images when the setting is empty.
const DefaultInstallerImage = "rancher/system-agent-installer-"

// ClusterAgent is the manifest of the agent inside the downstream cluster.
type ClusterAgent struct {
	// Manifest is YAML; empty means there is nothing to install.
	Manifest string
	// PreBootstrap is true while Manifest is the reduced form that every server gets before the cluster is up.
	PreBootstrap bool
	// OnlyWay is true where nothing but that agent leads to the cluster: its servers do not print their kubeconfig.
	OnlyWay bool `json:",omitzero"`
}

// Objects are the Secrets and ConfigMaps a cluster's configuration refers to, already read. An object that is not in the
// map does not exist.
type Objects struct {
	Secrets    map[types.NamespacedName]Secret
	ConfigMaps map[types.NamespacedName]ConfigMap
}

// Secret is a Secret reduced to what rendering needs. It prints as a mask.
type Secret struct {
	Type corev1.SecretType
	Data map[string][]byte
	// Annotations hold the names of clusters that may use the Secret.
	Annotations map[string]string
	// Denied says why the cluster's configuration may not use the Secret, which is in another namespace. Empty: it may. Data that are there
	// nevertheless are for the server's own settings.
	Denied string
}

// String hides the data.
func (s Secret) String() string { return fmt.Sprintf("Secret{%s, %d keys}", s.Type, len(s.Data)) }

// GoString hides the data.
func (s Secret) GoString() string { return s.String() }

// ConfigMap is a ConfigMap reduced to what rendering needs; Data holds data and binaryData.
type ConfigMap struct {
	Data        map[string][]byte
	Annotations map[string]string
}

// Warning tells that something in the configuration was passed on although it looks wrong, or was left out. It never holds
// a secret value.
type Warning struct {
	// Reason is a constant in CamelCase, for example UnknownConfigKey.
	Reason string
	// Field is the path in the cluster's spec, for example spec.rkeConfig.machineGlobalConfig.cni.
	Field string
	// Message is a sentence built from stable data.
	Message string
}

// PendingError says that a plan cannot be rendered yet because a fact is still missing. It is not a failure: the caller
// waits for the fact.
type PendingError struct {
	// Message names the machine and the missing fact.
	Message string
}

// Error returns the message.
func (e *PendingError) Error() string { return e.Message }
