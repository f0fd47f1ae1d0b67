package v1

// Every name below is stored in objects, and read by programs other than Drover: none may ever change. An annotation
// with an empty value counts as absent.

// Annotations on a provisioning Cluster that its user sets.
const (
	// ManagementClusterNameAnnotation requests a name of the management cluster.
	ManagementClusterNameAnnotation = "provisioning.cattle.io/management-cluster-name"
	// FleetWorkspaceNameAnnotation chooses the Fleet workspace.
	FleetWorkspaceNameAnnotation = "provisioning.cattle.io/fleet-workspace-name"
	// ExternallyManagedAnnotation means that another manager manages Fleet, unless it is empty or "false".
	ExternallyManagedAnnotation = "provisioning.cattle.io/externally-managed"
	// EnableSchedulingCustomizationAnnotation is "true" or "false": fills in a default for that customization, or
	// ignores it.
	EnableSchedulingCustomizationAnnotation = "provisioning.cattle.io/enable-scheduling-customization"
	// EnableFleetSchedulingCustomizationAnnotation is the same for Fleet's agent.
	EnableFleetSchedulingCustomizationAnnotation = "provisioning.cattle.io/enable-fleet-scheduling-customization"
	// RKE2PrimeEnabledAnnotation is "true" or "false": overrides the source of RKE2's images. Copied to the control
	// plane.
	RKE2PrimeEnabledAnnotation = "provisioning.cattle.io/rke2-prime-enabled"
	// ClusterAutoscalerPausedAnnotation, with any value, pauses the autoscaler of the cluster.
	ClusterAutoscalerPausedAnnotation = "provisioning.cattle.io/cluster-autoscaler-paused"
	// AllowDynamicSchemaDropAnnotation is "true" to let an update empty a pool's dynamicSchemaSpec.
	AllowDynamicSchemaDropAnnotation = "provisioning.cattle.io/allow-dynamic-schema-drop"
	// DescriptionAnnotation is a text for users, copied to the management cluster.
	DescriptionAnnotation = "field.cattle.io/description"
	// CreatorIDAnnotation is the user who created an object.
	CreatorIDAnnotation = "field.cattle.io/creatorId"
	// NoCreatorRBACAnnotation means that the creator of an object gets no rights on it.
	NoCreatorRBACAnnotation = "field.cattle.io/no-creator-rbac"
	// UIProviderAnnotation is the provider that user interfaces show.
	UIProviderAnnotation = "ui.rancher/provider"
	// HarvesterRemoveAllVolumesAnnotation is "true" to remove volumes with machines of Harvester.
	HarvesterRemoveAllVolumesAnnotation = "harvesterhci.io/removeAllPersistentVolumeClaims"
	// HarvesterSkipCleanupAnnotation is "true" on an infrastructure machine that Harvester has cleaned up.
	HarvesterSkipCleanupAnnotation = "harvesterhci.io/skipHarvesterMachineProvisionCleanup"
)

// Annotations that controllers set.
const (
	// ManagementClusterDisplayNameAnnotation is the Cluster's own name, for lists in user interfaces.
	ManagementClusterDisplayNameAnnotation = "provisioning.cattle.io/management-cluster-display-name"
	// AdministratedAnnotation on the management cluster is "true" when the Cluster has an rkeConfig, and otherwise
	// "false".
	AdministratedAnnotation = "provisioning.cattle.io/administrated"
	// ClusterAutoscalerEnabledAnnotation is "true" on a Cluster API cluster that is scaled automatically.
	ClusterAutoscalerEnabledAnnotation = "provisioning.cattle.io/cluster-autoscaler-enabled"
	// ManagedAnnotation is "false" on a Namespace or workspace that Drover does not change.
	ManagedAnnotation = "provisioning.cattle.io/managed"
)

// KeepMachineConfigAnnotation is "true" on a machine config that Drover keeps, although no cluster uses it.
const KeepMachineConfigAnnotation = "provisioning.cattle.io/keep-machine-config"

// Annotations for the copy of Secrets and ConfigMaps into clusters.
const (
	// SyncAnnotation is "true" on an object that is copied.
	SyncAnnotation = "provisioning.cattle.io/sync"
	// SyncBootstrapAnnotation is "true" on an object that is copied as soon as the cluster's API answers. Drover copies
	// all objects at that time.
	SyncBootstrapAnnotation = "provisioning.cattle.io/sync-bootstrap"
	// SyncTargetNamespaceAnnotation and SyncTargetNameAnnotation are the target of the copy.
	SyncTargetNamespaceAnnotation = "provisioning.cattle.io/sync-target-namespace"
	SyncTargetNameAnnotation      = "provisioning.cattle.io/sync-target-name"
	// SyncedAtAnnotation is the time of the last write, in RFC 3339, on the copy.
	SyncedAtAnnotation = "provisioning.cattle.io/synced-at"
	// SyncedFromAnnotation is NAMESPACE/NAME of the original, on the copy.
	SyncedFromAnnotation = "drover.io/synced-from"
)

// Labels.
const (
	// KubeconfigTypeLabel is "autoscaler" on the kubeconfig Secret of the autoscaler.
	KubeconfigTypeLabel = "provisioning.cattle.io/kubeconfig-type"
	// SyncedForLabel is the name of the management cluster, on a copy of a Secret or ConfigMap in the cluster. Drover
	// changes and deletes only copies with this label.
	SyncedForLabel = "drover.io/synced-for"
)

// Finalizers. The part after the slash is the name of the handler that the finalizer belongs to.
const (
	// RKEClusterFinalizer waits until the Cluster API objects are deleted.
	RKEClusterFinalizer = "wrangler.cattle.io/rke-cluster-remove"
	// ProvisioningClusterFinalizer waits until the management cluster is deleted.
	ProvisioningClusterFinalizer = "wrangler.cattle.io/provisioning-cluster-remove"
	// CloudConfigSecretFinalizer removes Secrets that are marked for deletion with the cluster.
	CloudConfigSecretFinalizer = "wrangler.cattle.io/cloud-config-secret-remover"
)

// Types of conditions.
const (
	// ConditionCreated is the result of the creation of the management cluster.
	ConditionCreated = "Created"
	// ConditionRKECluster is the result of the creation of the Cluster API objects. It shows errors in a manifest.
	ConditionRKECluster = "RKECluster"
	// ConditionReady, ConditionUpdated and ConditionProvisioned follow the control plane's Ready.
	ConditionReady       = "Ready"
	ConditionUpdated     = "Updated"
	ConditionProvisioned = "Provisioned"
	// ConditionReconciling and ConditionStalled are for tools that read these two conditions on every kind.
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
	// ConditionRemoved, ConditionWaiting and ConditionPending are written during removal.
	ConditionRemoved = "Removed"
	ConditionWaiting = "Waiting"
	ConditionPending = "Pending"
	// ConditionClusterAutoscalerDeploymentReady follows the autoscaler.
	ConditionClusterAutoscalerDeploymentReady = "ClusterAutoscalerDeploymentReady"
	// ConditionFleetCluster is false while Fleet does not get the Cluster as its spec asks. A Cluster without such a
	// problem does not have it.
	ConditionFleetCluster = "FleetCluster"
	// ConditionCloudCredentialValid says whether the clouds accept the credentials of the machine pools. A Cluster
	// whose clouds have no cheap check has it only while the keys of a credential are wrong.
	ConditionCloudCredentialValid = "CloudCredentialValid"
)

// The log of a Cluster is a ConfigMap in the namespace of its management cluster.
const (
	// ProvisioningLogName is the name of the ConfigMap.
	ProvisioningLogName = "provisioning-log"
	// ProvisioningLogKey holds the lines, ProvisioningLogLastKey the message of the last line.
	ProvisioningLogKey     = "log"
	ProvisioningLogLastKey = "last"
)

// Names of cache indexes.
const (
	// IndexByCluster finds Clusters by status.clusterName.
	IndexByCluster = "by-cluster"
	// IndexByCloudCredential finds Clusters by their credential.
	IndexByCloudCredential = "by-cloud-cred"
	// IndexByMachinePoolCloudCredential finds Clusters by their pools' credentials.
	IndexByMachinePoolCloudCredential = "by-machine-pool-cloud-cred"
	// IndexByNodeInfra finds Clusters by apiVersion/kind/namespace/name of their pools' machine configs.
	IndexByNodeInfra = "by-node-infra"
)

const (
	// SecretTypeCloudCredential is the type of a cloud credential in a workspace namespace.
	SecretTypeCloudCredential = "provisioning.cattle.io/cloud-credential"
	// GlobalDataNamespace holds credentials that several namespaces share, written `cattle-global-data:NAME`.
	GlobalDataNamespace = "cattle-global-data"
	// DefaultWorkspaceNamespace is the default namespace of clusters.
	DefaultWorkspaceNamespace = "fleet-default"
	// LocalWorkspaceNamespace is the namespace of the management plane's own cluster.
	LocalWorkspaceNamespace = "fleet-local"
	// LocalClusterName is the name of that cluster.
	LocalClusterName = "local"
	// SystemNamespace is the namespace of agents inside clusters.
	SystemNamespace = "cattle-system"
)
