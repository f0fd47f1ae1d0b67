package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterConfiguration is what a user can configure about RKE2 or K3s itself. It is inlined into
// `Cluster.spec.rkeConfig` and copied from there into `RKEControlPlane.spec`.
type ClusterConfiguration struct {
	// UpgradeStrategy limits how many machines change at a time, and configures their drain.
	// +optional
	UpgradeStrategy ClusterUpgradeStrategy `json:"upgradeStrategy"`

	// ChartValues are Helm values for the charts of the distribution: the key is the chart name (for
	// example `rke2-calico`), the value its values object.
	// +nullable
	// +optional
	ChartValues GenericMap `json:"chartValues,omitzero"`

	// MachineGlobalConfig contains keys of the distribution's config.yaml for all machines, for example `cni`,
	// `disable`, `profile` or `kube-apiserver-arg`.
	// +nullable
	// +optional
	MachineGlobalConfig GenericMap `json:"machineGlobalConfig,omitzero"`

	// MachineSelectorConfig contains keys of the distribution's config.yaml for the machines that match a selector. The
	// entries are applied in order over machineGlobalConfig: later ones win.
	// +nullable
	// +optional
	MachineSelectorConfig []RKESystemConfig `json:"machineSelectorConfig,omitempty"`

	// MachineSelectorFiles are additional files from Secrets and ConfigMaps, for the machines that match a selector.
	// +nullable
	// +optional
	MachineSelectorFiles []RKEProvisioningFiles `json:"machineSelectorFiles,omitempty"`

	// AdditionalManifest is YAML that every server applies to the cluster.
	// +nullable
	// +optional
	AdditionalManifest string `json:"additionalManifest,omitempty"`

	// Registries configures image registries, their mirrors and credentials for containerd on all machines.
	// +nullable
	// +optional
	Registries *Registry `json:"registries,omitempty"`

	// ETCD configures automatic snapshots and their storage. When it is absent, the distribution's defaults apply.
	// +nullable
	// +optional
	ETCD *ETCD `json:"etcd,omitempty"`

	// Networking contains facts about the cluster's addresses for the planner.
	// +nullable
	// +optional
	Networking *Networking `json:"networking,omitempty"`

	// DataDirectories moves the directories that Drover and the distribution use on machines. It cannot change later.
	// +optional
	DataDirectories DataDirectories `json:"dataDirectories"`

	// ProvisionGeneration forces a new configuration and a restart of all machines when it changes.
	// +optional
	ProvisionGeneration int `json:"provisionGeneration,omitempty"`
}

// ClusterUpgradeStrategy configures the rollout of a change to the machines of a cluster.
type ClusterUpgradeStrategy struct {
	// ControlPlaneConcurrency is how many control-plane machines may change at a time: a number, a share of the
	// tier as `10%` (rounded up), or `0` for no limit. Empty means 1. Machines with etcd always change one by one.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^((([1-9]|[1-9][0-9]|100)%)|([1-9][0-9]*|0)|)$`
	ControlPlaneConcurrency string `json:"controlPlaneConcurrency,omitempty"`

	// ControlPlaneDrainOptions configures the drain of machines with the etcd or control-plane role.
	// +optional
	ControlPlaneDrainOptions DrainOptions `json:"controlPlaneDrainOptions"`

	// WorkerConcurrency is how many worker machines may change at a time, in the form of controlPlaneConcurrency.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^((([1-9]|[1-9][0-9]|100)%)|([1-9][0-9]*|0)|)$`
	WorkerConcurrency string `json:"workerConcurrency,omitempty"`

	// WorkerDrainOptions configures the drain of machines with only the worker role.
	// +optional
	WorkerDrainOptions DrainOptions `json:"workerDrainOptions"`
}

// DrainOptions configures the drain of a node before its restart. Its JSON with sorted keys is a marker that hook
// owners compare, so keys that are always written must always be written in later versions, too.
type DrainOptions struct {
	// Enabled turns draining on. Hooks run even when it is off. The only machine of a cluster is never drained.
	// +optional
	Enabled bool `json:"enabled"`

	// Force also evicts pods without a controller that recreates them.
	// +optional
	Force bool `json:"force"`

	// IgnoreDaemonSets does not evict the pods of DaemonSets. Absent means true.
	// +nullable
	// +optional
	IgnoreDaemonSets *bool `json:"ignoreDaemonSets,omitempty"`

	// IgnoreErrors continues without the drain if it still fails after its timeout.
	// +optional
	IgnoreErrors bool `json:"ignoreErrors,omitempty"`

	// DeleteEmptyDirData evicts pods with emptyDir volumes, whose data are lost.
	// +optional
	DeleteEmptyDirData bool `json:"deleteEmptyDirData"`

	// DisableEviction deletes pods instead of evicting them, which bypasses PodDisruptionBudgets.
	// +optional
	DisableEviction bool `json:"disableEviction"`

	// GracePeriod is how many seconds pods get to shut down. 0 kills them at once, and a negative number uses the pod's
	// own period.
	// +optional
	GracePeriod int `json:"gracePeriod"`

	// Timeout is how many seconds the drain of one node may take. 0 means 600.
	// +optional
	Timeout int `json:"timeout"`

	// SkipWaitForDeleteTimeoutSeconds stops waiting for a pod that has been terminating for more than this many
	// seconds. 0 means no limit.
	// +optional
	SkipWaitForDeleteTimeoutSeconds int `json:"skipWaitForDeleteTimeoutSeconds"`

	// PreDrainHooks must all answer after the node is cordoned and before its pods are evicted.
	// +nullable
	// +optional
	PreDrainHooks []DrainHook `json:"preDrainHooks,omitempty"`

	// PostDrainHooks must all answer before a node is uncordoned.
	// +nullable
	// +optional
	PostDrainHooks []DrainHook `json:"postDrainHooks,omitempty"`
}

// DrainHook lets a program outside Drover block a drain until it agrees.
type DrainHook struct {
	// Annotation is the key that the hook's owner sets on the plan Secret. Its value must be the value of the pre-drain
	// or post-drain annotation that it answers.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Annotation string `json:"annotation,omitempty"`
}

// RKESystemConfig is configuration for the machines that match a selector.
type RKESystemConfig struct {
	// MachineLabelSelector selects Cluster API Machines by their labels. Absent means all machines.
	// +nullable
	// +optional
	MachineLabelSelector *metav1.LabelSelector `json:"machineLabelSelector,omitempty"`

	// Config contains keys of the distribution's config.yaml.
	// +nullable
	// +optional
	Config GenericMap `json:"config,omitzero"`
}

// RKEProvisioningFiles is a list of files for the machines that match a selector.
type RKEProvisioningFiles struct {
	// MachineLabelSelector selects Cluster API Machines by their labels. Absent means all machines.
	// +nullable
	// +optional
	MachineLabelSelector *metav1.LabelSelector `json:"machineLabelSelector,omitempty"`

	// FileSources are the objects with the files.
	// +nullable
	// +optional
	FileSources []ProvisioningFileSource `json:"fileSources,omitempty"`
}

// ProvisioningFileSource names the object with the files: a Secret or a ConfigMap, not both.
type ProvisioningFileSource struct {
	// Secret names a Secret in the namespace of the cluster.
	// +optional
	Secret K8sObjectFileSource `json:"secret,omitzero"`

	// ConfigMap names a ConfigMap in the namespace of the cluster.
	// +optional
	ConfigMap K8sObjectFileSource `json:"configMap,omitzero"`
}

// K8sObjectFileSource selects keys of a Secret or ConfigMap. The object must list the cluster in its annotation
// `rke.cattle.io/object-authorized-for-clusters`.
type K8sObjectFileSource struct {
	// Name of the object, in the namespace of the cluster.
	// +nullable
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Items are the keys to write. Other keys are not written.
	// +nullable
	// +optional
	Items []KeyToPath `json:"items,omitempty"`

	// DefaultPermissions is the octal mode of files whose item has no mode, for example `600`.
	// +nullable
	// +optional
	DefaultPermissions string `json:"defaultPermissions,omitempty"`
}

// KeyToPath maps a key to the file for its value.
type KeyToPath struct {
	// Key of the object's data.
	// +nullable
	// +required
	Key string `json:"key"`

	// Path is the absolute path of the file on the machine.
	// +nullable
	// +required
	Path string `json:"path"`

	// Dynamic lets the content change without a restart of the node.
	// +optional
	Dynamic bool `json:"dynamic,omitempty"`

	// Permissions is the octal mode of the file, for example `644`.
	// +nullable
	// +optional
	Permissions string `json:"permissions,omitempty"`

	// Hash is the base64 of the SHA-256 of the content. If it is set, Drover refuses other content.
	// +nullable
	// +optional
	Hash string `json:"hash,omitempty"`
}

// Registry is the registries configuration of containerd.
type Registry struct {
	// Mirrors maps a registry host, or `*`, to the endpoints that replace it.
	// +nullable
	// +optional
	Mirrors map[string]Mirror `json:"mirrors,omitempty"`

	// Configs maps a registry host, with its port if it has one, to credentials and TLS settings.
	// +nullable
	// +optional
	Configs map[string]RegistryConfig `json:"configs,omitempty"`
}

// Mirror contains the endpoints for the images of a registry.
type Mirror struct {
	// Endpoints are URLs, tried in order. The key is singular although the value is a list.
	// +nullable
	// +optional
	Endpoints []string `json:"endpoint,omitempty"`

	// Rewrites maps a regular expression on the repository's name to its replacement.
	// +nullable
	// +optional
	Rewrites map[string]string `json:"rewrite,omitempty"`
}

// RegistryConfig contains the credential and the TLS settings of a registry.
type RegistryConfig struct {
	// AuthConfigSecretName names a Secret with credentials in the namespace of the cluster, of type
	// `rke.cattle.io/auth-config`, `kubernetes.io/basic-auth` or `kubernetes.io/dockerconfigjson`.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AuthConfigSecretName string `json:"authConfigSecretName,omitempty"`

	// TLSSecretName names a Secret of type `kubernetes.io/tls` with a client certificate.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`

	// CABundle is PEM of the authorities that may sign the registry's certificate.
	// +nullable
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`

	// InsecureSkipVerify turns off the verification of the registry's certificate.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// ETCD configures automatic snapshots.
type ETCD struct {
	// DisableSnapshots turns automatic snapshots off.
	// +optional
	DisableSnapshots bool `json:"disableSnapshots,omitempty"`

	// SnapshotScheduleCron is the schedule of automatic snapshots. Empty means the distribution's default.
	// +nullable
	// +optional
	SnapshotScheduleCron string `json:"snapshotScheduleCron,omitempty"`

	// SnapshotRetention is how many snapshots each machine keeps. 0 means the distribution's default.
	// +optional
	SnapshotRetention int `json:"snapshotRetention,omitempty"`

	// S3 copies snapshots to S3-compatible storage.
	// +nullable
	// +optional
	S3 *ETCDSnapshotS3 `json:"s3,omitempty"`
}

// ETCDSnapshotS3 is storage for snapshots. Its values override those of the credential.
type ETCDSnapshotS3 struct {
	// Endpoint is the host of the storage.
	// +nullable
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// EndpointCA is PEM, or base64 of PEM, of the authority that signs the endpoint's certificate.
	// +nullable
	// +optional
	EndpointCA string `json:"endpointCA,omitempty"`

	// SkipSSLVerify turns off the verification of the endpoint's certificate.
	// +optional
	SkipSSLVerify bool `json:"skipSSLVerify,omitempty"`

	// Bucket for snapshots.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket,omitempty"`

	// Region of the bucket.
	// +nullable
	// +optional
	Region string `json:"region,omitempty"`

	// CloudCredentialName names the Secret with the access key: `cattle-global-data:NAME`, or a name in the namespace
	// of the cluster.
	// +nullable
	// +optional
	CloudCredentialName string `json:"cloudCredentialName,omitempty"`

	// Retention is how many snapshots the storage keeps. 0 means the same number as on machines.
	// +nullable
	// +optional
	// +kubebuilder:validation:Minimum=0
	Retention int `json:"retention,omitempty"`

	// Folder inside the bucket.
	// +nullable
	// +optional
	Folder string `json:"folder,omitempty"`
}

// Networking contains facts about a cluster's addresses for the planner.
type Networking struct {
	// StackPreference is `dual` (also when empty), `ipv4` or `ipv6`. It decides which loopback address probes use, and
	// in which order a node's addresses are given to the distribution.
	// +nullable
	// +optional
	StackPreference StackPreference `json:"stackPreference,omitempty"`
}

// StackPreference is a preference between address families.
type StackPreference string

const (
	// StackPreferenceDual uses both families, with `localhost` as loopback. An empty value means the same.
	StackPreferenceDual StackPreference = "dual"
	// StackPreferenceIPv4 prefers IPv4, with `127.0.0.1` as loopback.
	StackPreferenceIPv4 StackPreference = "ipv4"
	// StackPreferenceIPv6 prefers IPv6, with `[::1]` as loopback.
	StackPreferenceIPv6 StackPreference = "ipv6"
)

// DataDirectories are directories on machines. An empty one means the default.
type DataDirectories struct {
	// SystemAgent is the directory of the node agent. Default: /var/lib/rancher/agent.
	// +nullable
	// +optional
	SystemAgent string `json:"systemAgent,omitempty"`

	// Provisioning is the directory for files of plans on a machine. Default: /var/lib/rancher/capr.
	// +nullable
	// +optional
	Provisioning string `json:"provisioning,omitempty"`

	// K8sDistro is the data directory of the distribution. Default: /var/lib/rancher/rke2 or /var/lib/rancher/k3s.
	// +nullable
	// +optional
	K8sDistro string `json:"k8sDistro,omitempty"`
}
