package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterConfiguration is what a user can configure about RKE2 or K3s itself. It is inlined into
// `Cluster.spec.rkeConfig` and copied from there into `RKEControlPlane.spec`.
type ClusterConfiguration struct {
	// UpgradeStrategy says how many machines are worked on at a time and how they are drained.
	// +optional
	UpgradeStrategy ClusterUpgradeStrategy `json:"upgradeStrategy"`

	// ChartValues holds Helm values for the charts that come with the distribution: the key is the chart name (for
	// example `rke2-calico`), the value its values object.
	// +nullable
	// +optional
	ChartValues GenericMap `json:"chartValues,omitzero"`

	// MachineGlobalConfig holds keys of the distribution's config.yaml for all machines, for example `cni`, `disable`,
	// `profile` or `kube-apiserver-arg`.
	// +nullable
	// +optional
	MachineGlobalConfig GenericMap `json:"machineGlobalConfig,omitzero"`

	// MachineSelectorConfig holds keys of the distribution's config.yaml for the machines that match a selector. The
	// entries are applied in order over machineGlobalConfig: later ones win.
	// +nullable
	// +optional
	MachineSelectorConfig []RKESystemConfig `json:"machineSelectorConfig,omitempty"`

	// MachineSelectorFiles are extra files, taken from Secrets and ConfigMaps, for the machines that match a selector.
	// +nullable
	// +optional
	MachineSelectorFiles []RKEProvisioningFiles `json:"machineSelectorFiles,omitempty"`

	// AdditionalManifest is YAML that every server puts into the cluster.
	// +nullable
	// +optional
	AdditionalManifest string `json:"additionalManifest,omitempty"`

	// Registries configures image registries, their mirrors and credentials for containerd on all machines.
	// +nullable
	// +optional
	Registries *Registry `json:"registries,omitempty"`

	// ETCD configures automatic snapshots and where they are kept. When it is absent the distribution's own defaults apply.
	// +nullable
	// +optional
	ETCD *ETCD `json:"etcd,omitempty"`

	// Networking holds what the planner has to know about the addresses of the cluster.
	// +nullable
	// +optional
	Networking *Networking `json:"networking,omitempty"`

	// DataDirectories moves the directories that Drover and the distribution use on machines. It cannot change later.
	// +optional
	DataDirectories DataDirectories `json:"dataDirectories"`

	// ProvisionGeneration forces all machines to be configured and restarted once more when it is changed.
	// +optional
	ProvisionGeneration int `json:"provisionGeneration,omitempty"`
}

// ClusterUpgradeStrategy says how a change goes through the machines of a cluster.
type ClusterUpgradeStrategy struct {
	// ControlPlaneConcurrency is how many control-plane machines may be worked on at a time: a number, a share of the
	// tier as `10%` (rounded up), or `0` for no limit. Empty means 1. Machines with etcd are always done one by one.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^((([1-9]|[1-9][0-9]|100)%)|([1-9][0-9]*|0)|)$`
	ControlPlaneConcurrency string `json:"controlPlaneConcurrency,omitempty"`

	// ControlPlaneDrainOptions says how machines with the etcd or control-plane role are drained.
	// +optional
	ControlPlaneDrainOptions DrainOptions `json:"controlPlaneDrainOptions"`

	// WorkerConcurrency is how many worker machines may be worked on at a time, written like controlPlaneConcurrency.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^((([1-9]|[1-9][0-9]|100)%)|([1-9][0-9]*|0)|)$`
	WorkerConcurrency string `json:"workerConcurrency,omitempty"`

	// WorkerDrainOptions says how machines with only the worker role are drained.
	// +optional
	WorkerDrainOptions DrainOptions `json:"workerDrainOptions"`
}

// DrainOptions says how the pods leave a node before it is restarted. Its JSON with sorted keys is a marker that hook
// owners compare, so the keys that are always written must stay always written.
type DrainOptions struct {
	// Enabled turns draining on. Hooks run even when it is off. The only machine of a cluster is never drained.
	// +optional
	Enabled bool `json:"enabled"`

	// Force evicts pods that no controller would bring back as well.
	// +optional
	Force bool `json:"force"`

	// IgnoreDaemonSets leaves the pods of DaemonSets where they are. Absent means true.
	// +nullable
	// +optional
	IgnoreDaemonSets *bool `json:"ignoreDaemonSets,omitempty"`

	// IgnoreErrors is accepted for old manifests and has no effect.
	// +optional
	IgnoreErrors bool `json:"ignoreErrors,omitempty"`

	// DeleteEmptyDirData evicts pods with emptyDir volumes, whose data are lost.
	// +optional
	DeleteEmptyDirData bool `json:"deleteEmptyDirData"`

	// DisableEviction deletes pods instead of evicting them, which bypasses PodDisruptionBudgets.
	// +optional
	DisableEviction bool `json:"disableEviction"`

	// GracePeriod is how many seconds pods get to end. 0 kills at once, a negative number uses the pod's own period.
	// +optional
	GracePeriod int `json:"gracePeriod"`

	// Timeout is how many seconds the drain of one node may take. 0 means 600.
	// +optional
	Timeout int `json:"timeout"`

	// SkipWaitForDeleteTimeoutSeconds stops waiting for a pod that has been terminating for more than this many seconds.
	// 0 always waits.
	// +optional
	SkipWaitForDeleteTimeoutSeconds int `json:"skipWaitForDeleteTimeoutSeconds"`

	// PreDrainHooks must all answer after a node was cordoned and before its pods are evicted.
	// +nullable
	// +optional
	PreDrainHooks []DrainHook `json:"preDrainHooks,omitempty"`

	// PostDrainHooks must all answer before a node is uncordoned.
	// +nullable
	// +optional
	PostDrainHooks []DrainHook `json:"postDrainHooks,omitempty"`
}

// DrainHook lets a program outside Drover hold a drain until it agrees.
type DrainHook struct {
	// Annotation is the key that the hook's owner sets on the plan Secret. Its value has to be the value of the pre-drain
	// or post-drain annotation that it answers.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Annotation string `json:"annotation,omitempty"`
}

// RKESystemConfig is configuration for the machines that match a selector.
type RKESystemConfig struct {
	// MachineLabelSelector is matched against the labels of the Cluster API Machine. Absent matches every machine.
	// +nullable
	// +optional
	MachineLabelSelector *metav1.LabelSelector `json:"machineLabelSelector,omitempty"`

	// Config holds keys of the distribution's config.yaml.
	// +nullable
	// +optional
	Config GenericMap `json:"config,omitzero"`
}

// RKEProvisioningFiles is a list of files for the machines that match a selector.
type RKEProvisioningFiles struct {
	// MachineLabelSelector is matched against the labels of the Cluster API Machine. Absent matches every machine.
	// +nullable
	// +optional
	MachineLabelSelector *metav1.LabelSelector `json:"machineLabelSelector,omitempty"`

	// FileSources are the objects that hold the files.
	// +nullable
	// +optional
	FileSources []ProvisioningFileSource `json:"fileSources,omitempty"`
}

// ProvisioningFileSource names the object that files come from: a Secret or a ConfigMap, not both.
type ProvisioningFileSource struct {
	// Secret names a Secret in the namespace of the cluster.
	// +optional
	Secret K8sObjectFileSource `json:"secret,omitzero"`

	// ConfigMap names a ConfigMap in the namespace of the cluster.
	// +optional
	ConfigMap K8sObjectFileSource `json:"configMap,omitzero"`
}

// K8sObjectFileSource selects keys of a Secret or ConfigMap. The object must name the cluster in its annotation
// `rke.cattle.io/object-authorized-for-clusters`.
type K8sObjectFileSource struct {
	// Name of the object, in the namespace of the cluster.
	// +nullable
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Items are the keys to write. Keys that are not listed are not written.
	// +nullable
	// +optional
	Items []KeyToPath `json:"items,omitempty"`

	// DefaultPermissions is the octal mode of files whose item has none, for example `600`.
	// +nullable
	// +optional
	DefaultPermissions string `json:"defaultPermissions,omitempty"`
}

// KeyToPath says where the value of a key goes.
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

	// Hash is the base64 of the SHA-256 of the content. When it is set, other content is refused.
	// +nullable
	// +optional
	Hash string `json:"hash,omitempty"`
}

// Registry is the registries configuration of containerd.
type Registry struct {
	// Mirrors maps a registry host, or `*`, to the endpoints that stand in for it.
	// +nullable
	// +optional
	Mirrors map[string]Mirror `json:"mirrors,omitempty"`

	// Configs maps a registry host, with its port if it has one, to credentials and TLS settings.
	// +nullable
	// +optional
	Configs map[string]RegistryConfig `json:"configs,omitempty"`
}

// Mirror is where images of a registry are looked for.
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

// RegistryConfig says how to talk to a registry.
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

	// InsecureSkipVerify turns the check of the registry's certificate off.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

// ETCD configures automatic snapshots.
type ETCD struct {
	// DisableSnapshots turns automatic snapshots off.
	// +optional
	DisableSnapshots bool `json:"disableSnapshots,omitempty"`

	// SnapshotScheduleCron says when automatic snapshots are taken. Empty means the distribution's default.
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

// ETCDSnapshotS3 is storage for snapshots. Values win over those of the credential.
type ETCDSnapshotS3 struct {
	// Endpoint is the host of the storage.
	// +nullable
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// EndpointCA is PEM, or base64 of PEM, of the authority that signs the endpoint's certificate.
	// +nullable
	// +optional
	EndpointCA string `json:"endpointCA,omitempty"`

	// SkipSSLVerify turns the check of the endpoint's certificate off.
	// +optional
	SkipSSLVerify bool `json:"skipSSLVerify,omitempty"`

	// Bucket that snapshots go to.
	// +nullable
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Bucket string `json:"bucket,omitempty"`

	// Region of the bucket.
	// +nullable
	// +optional
	Region string `json:"region,omitempty"`

	// CloudCredentialName names the Secret with the access key: `cattle-global-data:NAME`, or a name in the namespace of
	// the cluster.
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

// Networking is what the planner has to know about the addresses of a cluster.
type Networking struct {
	// StackPreference is `dual` (also when empty), `ipv4` or `ipv6`. It decides which loopback address probes use and in
	// which order a node's addresses are given to the distribution.
	// +nullable
	// +optional
	StackPreference StackPreference `json:"stackPreference,omitempty"`
}

// StackPreference is a preference between address families.
type StackPreference string

const (
	// StackPreferenceDual uses both families, with `localhost` as loopback. It is also what an empty value means.
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

	// Provisioning is the directory of what plans put on a machine. Default: /var/lib/rancher/capr.
	// +nullable
	// +optional
	Provisioning string `json:"provisioning,omitempty"`

	// K8sDistro is the data directory of the distribution. Default: /var/lib/rancher/rke2 or /var/lib/rancher/k3s.
	// +nullable
	// +optional
	K8sDistro string `json:"k8sDistro,omitempty"`
}
