package v1

// Every name below is stored in objects, and read by programs other than Drover: none may ever change.
//
// Abbreviations: PC is the provisioning Cluster, CP the RKEControlPlane, RC the RKECluster, BS the RKEBootstrap, M the
// Cluster API Machine, MD its MachineDeployment, IM the infrastructure machine, PS the plan Secret. A label or annotation
// with an empty value counts as absent.

// Labels that say what an object belongs to and what a machine is.
const (
	// ClusterNameLabel is the name of the Cluster API cluster, on everything that belongs to it.
	ClusterNameLabel = "rke.cattle.io/cluster-name"
	// ControlPlaneRoleLabel is "true" on M, BS and PS of a machine that runs the API server.
	ControlPlaneRoleLabel = "rke.cattle.io/control-plane-role"
	// EtcdRoleLabel is "true" on M, BS and PS of a machine that is a member of etcd.
	EtcdRoleLabel = "rke.cattle.io/etcd-role"
	// WorkerRoleLabel is "true" on M, BS and PS of a machine that runs workloads.
	WorkerRoleLabel = "rke.cattle.io/worker-role"
	// RoleLabelValue is the value of the three role labels. A machine without a role has no label for it.
	RoleLabelValue = "true"
	// MachinePoolNameLabel is the name of the pool, on M.
	MachinePoolNameLabel = "rke.cattle.io/rke-machine-pool-name"
	// InitNodeLabel is "true" on the PS of the machine that the others join.
	InitNodeLabel = "rke.cattle.io/init-node"
	// InitNodeMachineIDLabel is set by users on PC, and copied to CP, to choose the machine that the others join.
	InitNodeMachineIDLabel = "rke.cattle.io/init-node-machine-id"
	// MachineIDLabel is the identifier that an agent chose for itself, on M, BS, CustomMachine and PS.
	MachineIDLabel = "rke.cattle.io/machine-id"
	// MachineNameLabel is the name of M, on PS, the ServiceAccounts of a machine, and the request Secret.
	MachineNameLabel = "rke.cattle.io/machine-name"
	// MachineNamespaceLabel is the namespace of M, on the request Secret.
	MachineNamespaceLabel = "rke.cattle.io/machine-namespace"
	// MachineUIDLabel is the UID of M, on the downstream Node: it tells which Node belongs to which Machine.
	MachineUIDLabel = "rke.cattle.io/machine"
	// NodeNameLabel is the name that a host asked for as a node, on M, BS and PS; and the node of a local ETCDSnapshot.
	NodeNameLabel = "rke.cattle.io/node-name"
	// MachineTemplateHashLabel is the hash that a machine template's name ends with.
	MachineTemplateHashLabel = "rke.cattle.io/machine-template-hash"
	// BootstrapNameLabel is the name of BS, on the ServiceAccounts of a machine.
	BootstrapNameLabel = "rke.cattle.io/rkebootstrap-name"
	// ServiceAccountRoleLabel tells the two ServiceAccounts of a machine apart.
	ServiceAccountRoleLabel = "rke.cattle.io/service-account-role"
	// ServiceAccountRoleBootstrap is the account that a machine introduces itself with.
	ServiceAccountRoleBootstrap = "bootstrap"
	// ServiceAccountRolePlan is the account that a machine's agent reads its plan with.
	ServiceAccountRolePlan = "plan"
	// PlanSecretNameLabel is the name of PS, on the ServiceAccount with the plan role.
	PlanSecretNameLabel = "rke.cattle.io/plan-secret-name"
	// CattleOSLabel is "linux" or "windows", on M and MD.
	CattleOSLabel = "cattle.io/os"
	// ServiceAccountNameLabel is the name of the ServiceAccount, on its token Secret.
	ServiceAccountNameLabel = "cattle.io/service-account.name"
	// GrantsAnnotation is on a Cluster and remembers, signed, who named Secrets of other namespaces in it. (docs/security.md.)
	GrantsAnnotation = "drover.io/granted-references"
	// GrantsRenew is what a request sets GrantsAnnotation to, that its user be the author of all references that have no good grant. Admission
	// puts the grants in its place.
	GrantsRenew = "renew"
	// BackupLabel is "true" on objects that a backup of the management cluster has to hold.
	BackupLabel = "resources.cattle.io/backup"
	// InfraMachineGroupLabel, InfraMachineVersionLabel, InfraMachineKindLabel and InfraMachineNameLabel name IM on its Job.
	InfraMachineGroupLabel   = "rke.cattle.io/infra-machine-group"
	InfraMachineVersionLabel = "rke.cattle.io/infra-machine-version"
	InfraMachineKindLabel    = "rke.cattle.io/infra-machine-kind"
	InfraMachineNameLabel    = "rke.cattle.io/infra-machine-name"
	// InfraRemoveLabel is "true" on a Job that removes a machine, "false" on one that makes it.
	InfraRemoveLabel = "rke.cattle.io/infra-remove"
	// CAPIMachineNameLabel is the name of M, on IM and its Jobs.
	CAPIMachineNameLabel = "rke.cattle.io/capi-machine-name"
	// NodeDriverNameLabel is the name of the driver, on its DynamicSchemas.
	NodeDriverNameLabel = "io.cattle.node_driver.name"
	// ClusterIndexedLabel is "true" on CRDs whose objects belong to clusters.
	ClusterIndexedLabel = "auth.cattle.io/cluster-indexed"
	// ApplyPruneLabel is "false" on objects that an apply set must never delete.
	ApplyPruneLabel = "objectset.rio.cattle.io/prune"
)

// Labels that name the Cluster API objects behind a plan, on PS and downstream Nodes.
const (
	PlanClusterGroupLabel = "plan.cattle.io/cluster-group"
	PlanClusterKindLabel  = "plan.cattle.io/cluster-kind"
	PlanClusterNameLabel  = "plan.cattle.io/cluster-name"
	PlanMachineGroupLabel = "plan.cattle.io/machine-group"
	PlanMachineKindLabel  = "plan.cattle.io/machine-kind"
	PlanMachineNameLabel  = "plan.cattle.io/machine-name"
)

// Annotations on machines that the planner renders into node configuration.
const (
	// AddressAnnotation is a comma list of a host's public addresses, on BS and PS.
	AddressAnnotation = "rke.cattle.io/address"
	// InternalAddressAnnotation is a comma list of a host's private addresses, on BS and PS.
	InternalAddressAnnotation = "rke.cattle.io/internal-address"
	// LabelsAnnotation is a JSON object of node labels, on M, BS and PS.
	LabelsAnnotation = "rke.cattle.io/labels"
	// TaintsAnnotation is a JSON list of node taints, on M, BS and PS.
	TaintsAnnotation = "rke.cattle.io/taints"
	// HostnameLengthLimitAnnotation is a decimal number from 10 to 63, on M and IM.
	HostnameLengthLimitAnnotation = "rke.cattle.io/hostname-length-limit"
	// ExternalIPAnnotation is an address on downstream Nodes, for display.
	ExternalIPAnnotation = "rke.cattle.io/external-ip"
)

// Annotations on PS by which machines join and drain.
const (
	// JoinURLAnnotation is the URL under which others join this machine.
	JoinURLAnnotation = "rke.cattle.io/join-url"
	// JoinedToAnnotation is the URL that this machine joined. Empty on the machine that joined no other.
	JoinedToAnnotation = "rke.cattle.io/joined-to"
	// JoinURLAutosetDisabledAnnotation, whatever its value, leaves the join URL to the user.
	JoinURLAutosetDisabledAnnotation = "rke.cattle.io/join-url-autoset-disabled"
	// DrainAnnotation asks for a drain: DrainOptions as JSON with sorted keys.
	DrainAnnotation = "rke.cattle.io/drain-options"
	// PreDrainAnnotation repeats the request once hooks may act before the drain.
	PreDrainAnnotation = "rke.cattle.io/pre-drain"
	// DrainDoneAnnotation repeats the request once the drain is done.
	DrainDoneAnnotation = "rke.cattle.io/drain-done"
	// UncordonAnnotation asks for the end of a drain.
	UncordonAnnotation = "rke.cattle.io/uncordon"
	// PostDrainAnnotation repeats the request once hooks may act before the end of the drain.
	PostDrainAnnotation = "rke.cattle.io/post-drain"
	// DrainSinceAnnotation is when the planner asked last for a drain, or for its end.
	DrainSinceAnnotation = "drover.io/drain-since"
	// DrainErrorAnnotation is why a drain does not get on.
	DrainErrorAnnotation = "rke.cattle.io/drain-error"
	// PlanUpdatedTimeAnnotation is when the plan was last written, in RFC 3339.
	PlanUpdatedTimeAnnotation = "rke.cattle.io/plan-last-updated"
	// PlanProbesPassedAnnotation is when all probes of the plan passed, in RFC 3339. Empty under a new plan.
	PlanProbesPassedAnnotation = "rke.cattle.io/plan-probes-passed"
)

// Annotations about the life of machines.
const (
	// PreTerminateAnnotation holds the removal of an etcd machine until its member has left, on M.
	PreTerminateAnnotation = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup"
	// PreTerminateAnnotationValue is the value of PreTerminateAnnotation.
	PreTerminateAnnotationValue = "rke-bootstrap-controller"
	// ForceRemoveEtcdAnnotation is "true" on a BS whose machine leaves without its etcd member being removed.
	ForceRemoveEtcdAnnotation = "rke.cattle.io/etcd-force-remove"
	// RemoveRKE2EtcdMemberAnnotation and RemoveK3sEtcdMemberAnnotation ask the distribution, on a downstream Node, to remove
	// the member of that node.
	RemoveRKE2EtcdMemberAnnotation = "etcd.rke2.cattle.io/remove"
	RemoveK3sEtcdMemberAnnotation  = "etcd.k3s.cattle.io/remove"
	// RemovedRKE2EtcdMemberAnnotation and RemovedK3sEtcdMemberAnnotation are how the distribution says that it did.
	RemovedRKE2EtcdMemberAnnotation = "etcd.rke2.cattle.io/removed-node-name"
	RemovedK3sEtcdMemberAnnotation  = "etcd.k3s.cattle.io/removed-node-name"
	// ForceMachineRemoveAnnotation is "true" on an IM that is given up after its removal failed.
	ForceMachineRemoveAnnotation = "provisioning.cattle.io/force-machine-remove"
	// ClonedFromGroupVersionAnnotation, ClonedFromKindAnnotation and ClonedFromNameAnnotation name the machine config that a
	// machine template was made from.
	ClonedFromGroupVersionAnnotation = "rke.cattle.io/cloned-from-group-version"
	ClonedFromKindAnnotation         = "rke.cattle.io/cloned-from-kind"
	ClonedFromNameAnnotation         = "rke.cattle.io/cloned-from-name"
	// DeleteMissingCustomMachinesAfterAnnotation is a duration, on PC and RC, after which others delete the Machine of a registered
	// host whose Node vanished. Drover only copies it.
	DeleteMissingCustomMachinesAfterAnnotation = "rke.cattle.io/delete-missing-custom-machines-after"
)

// Annotations that let clusters use Secrets and ConfigMaps, and those of a machine's token.
const (
	// AuthorizedObjectAnnotation is a comma list of clusters whose machineSelectorFiles may use the object: names, or, of clusters in
	// other namespaces, NAMESPACE/NAME and NAMESPACE/*, which lets them use a Secret for whatever else they name it.
	AuthorizedObjectAnnotation = "rke.cattle.io/object-authorized-for-clusters"
	// AuthorizedSecretAnnotation is a comma list of clusters whose configuration may refer to the Secret.
	AuthorizedSecretAnnotation = "v2prov-secret-authorized-for-cluster"
	// AuthorizedSecretDeletesAnnotation is "true" on a Secret that is deleted with its cluster.
	AuthorizedSecretDeletesAnnotation = "v2prov-authorized-secret-deletes-on-cluster-removal"
	// BootstrapTokenAnnotation is "true" on the token Secret of a machine's bootstrap account.
	BootstrapTokenAnnotation = "rke.cattle.io/bootstrap-token"
	// LastAccessAnnotation is when a bootstrap token was last used, in RFC 3339.
	LastAccessAnnotation = "rke.cattle.io/last-access-timestamp"
	// BootstrapTokenInvalidatedAnnotation is "true" on a bootstrap token that is no longer accepted.
	BootstrapTokenInvalidatedAnnotation = "rke.cattle.io/bootstrap-token-invalidated"
	// ServiceAccountSecretRefAnnotation is NAMESPACE/NAME of the token Secret, on its ServiceAccount.
	ServiceAccountSecretRefAnnotation = "rancher.io/service-account.secret-ref"
)

// Annotations on ETCDSnapshot.
const (
	// SnapshotNameAnnotation is the name of the downstream ETCDSnapshotFile.
	SnapshotNameAnnotation = "etcdsnapshot.rke.io/snapshot-name"
	// SnapshotFileNameAnnotation is the name of the file.
	SnapshotFileNameAnnotation = "etcdsnapshot.rke.io/snapshot-file-name"
	// SnapshotStorageAnnotation is "s3" or "local".
	SnapshotStorageAnnotation = "etcdsnapshot.rke.io/storage"
	// SnapshotRestoreModesAnnotation is a comma list of the restore modes that the snapshot's metadata allow.
	SnapshotRestoreModesAnnotation = "etcdsnapshot.rke.io/restore-mode-options"
)

// SnapshotClusterSpecKey is the key, in the metadata that the distribution stores with a snapshot, of the Cluster's spec in the
// form of ClusterSpecAnnotation.
const SnapshotClusterSpecKey = "provisioning-cluster-spec"

// Annotations on CP.
const (
	// ClusterSpecAnnotation is the Cluster's spec, without requests for operations, as base64 of gzipped JSON.
	ClusterSpecAnnotation = "rke.cattle.io/cluster-spec"
	// AppliedSystemAgentUpgraderHashAnnotation is the hash of the agent upgrade that was last applied.
	AppliedSystemAgentUpgraderHashAnnotation = "rke.cattle.io/applied-system-agent-upgrader-hash"
	// OperationLeaderAnnotation is the machine that carries out an operation.
	OperationLeaderAnnotation = "rke.cattle.io/operation-leader"
)

// Names of Drover's own. Other programs may rely on them too.
const (
	// RegistrationRefusedAnnotation says on a machine request why its host does not become a machine.
	RegistrationRefusedAnnotation = "drover.io/registration-refused"
	// InstanceAnnotation is the identifier of the Drover that manages a PC, written once when it was adopted.
	InstanceAnnotation = "drover.io/instance"
	// ReleasedByAnnotation is the identifier of the Drover that released a PC, until another instance adopts it.
	ReleasedByAnnotation = "drover.io/released-by"
	// NotedAnnotation tells on a PC up to which resource version of Machines an adoption has noted what it found: UID of PC, colon, version.
	// A cache of Machines that is older does not have the notes yet. In another management cluster, where PC has another UID, it says nothing.
	NotedAnnotation = "drover.io/noted-machines"
	// RenderVersionAnnotation is the version of plan rendering that a machine is pinned to, on M.
	RenderVersionAnnotation = "drover.io/render-version"
	// MachineUIDAnnotation is the UID by which the node of an M knows it, on M: the first one that M had. A Machine that was moved or
	// restored to another management cluster has another UID there, and its node must not be configured again for that.
	MachineUIDAnnotation = "drover.io/machine-uid"
	// MemoryAnnotation repeats on CP what its status remembers of operations, as JSON, because a move or a restore of objects
	// loses the status.
	MemoryAnnotation = "drover.io/memory"
	// RestoredFromAnnotation is the backup that "drover restore" made an object from.
	RestoredFromAnnotation = "drover.io/restored-from"
	// AgentCredentialAnnotation is what the agent of a machine connects with, on BS: UID of the BS, colon, SHA-256 in hex. It lets the
	// agent in when BS was moved or restored to another management cluster, where no token of the former one is known.
	AgentCredentialAnnotation = "drover.io/agent-credential"
	// FoundAnnotation tells, as digests, what the plan of a machine was made from when the machine was adopted from another manager, on M. It
	// goes with the first plan that Drover renders.
	FoundAnnotation = "drover.io/found"
	// ReachedByAgentAnnotation on the Secret with the manifest of a cluster's agent is "true" where that agent is the only way to the cluster: no
	// server prints the administrator's kubeconfig.
	ReachedByAgentAnnotation = "drover.io/reached-by-agent"
	// ProxyTokenAnnotation on a kubeconfig that leads through Drover names the Secret that its token is known by.
	ProxyTokenAnnotation = "drover.io/proxy-token"
	// RollAnnotation asks on a PC that machines move to another version of plan rendering: VERSION, or POOL=VERSION, or several with commas.
	RollAnnotation = "drover.io/roll-render-version"
	// PlanEvidenceAnnotation tells what the plan in a plan secret was rendered from, as digests, on S.
	PlanEvidenceAnnotation = "drover.io/plan-evidence"
	// DrainSkipAnnotation is "true" on an M whose node is changed without waiting for its drain, or for the end of one.
	DrainSkipAnnotation = "drover.io/drain-skip"
	// EtcdProofSkipAnnotation is "true" on an M whose node is restarted without its own proof that etcd can do without it.
	EtcdProofSkipAnnotation = "drover.io/etcd-proof-skip"
	// RetryAnnotation is "true" on an M whose node goes on trying a plan that it has given up.
	RetryAnnotation = "drover.io/retry"
	// RollOutSkipAnnotation is "true" on an M that a roll-out neither changes nor waits for.
	RollOutSkipAnnotation = "drover.io/roll-out-skip"
	// PausedByOperationAnnotation is the operation that has paused the CAPI Cluster, on the Cluster. It comes and goes in the
	// same write as the pause, so a pause without it is the user's.
	PausedByOperationAnnotation = "drover.io/paused-by-operation"
	// ProtectAnnotation is "true" on an object that must not be deleted. On a PC it covers all that belongs to the cluster; "false" on
	// one of its machines excepts that.
	ProtectAnnotation = "drover.io/protect"
	// CRDVersionLabel is the version of Drover's types that a CRD was installed with.
	CRDVersionLabel = "drover.io/crd-version"
	// ManagedByLabel and ManagedByDrover mark the CRDs that Drover installs and upgrades.
	ManagedByLabel  = "app.kubernetes.io/managed-by"
	ManagedByDrover = "drover"
)

// Names by which "clusterctl move" is told what to do. (docs/wire/capi.md#move-with-clusterctl.)
const (
	// ClusterctlLabel is on the CRDs of which clusterctl looks at the objects.
	ClusterctlLabel = "clusterctl.cluster.x-k8s.io"
	// BlockMoveAnnotation holds a move of an object, whatever its value.
	BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"
	// DeleteForMoveAnnotation is on an object that is deleted because it lives on in another management cluster.
	DeleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"
)

// Finalizers. The part after the slash is the name of the handler that the finalizer belongs to.
const (
	PlanControlPlaneFinalizer     = "wrangler.cattle.io/rke-control-plane-remove"
	BootstrapEtcdRemovalFinalizer = "wrangler.cattle.io/rke-bootstrap-etcd-removal"
	UnmanagedMachineFinalizer     = "wrangler.cattle.io/unmanaged-machine"
	MachineProvisionFinalizer     = "wrangler.cattle.io/machine-provision-remove"
)

// Types of Secrets.
const (
	SecretTypeMachinePlan    = "rke.cattle.io/machine-plan"
	SecretTypeBootstrap      = "rke.cattle.io/bootstrap"
	SecretTypeClusterState   = "rke.cattle.io/cluster-state"
	SecretTypeMachineRequest = "rke.cattle.io/machine-request"
	SecretTypeMachineState   = "rke.cattle.io/machine-state"
	SecretTypeAuthConfig     = "rke.cattle.io/auth-config"
	// SecretTypeClusterAgent is the type of the Secret with the manifest of a cluster's agent.
	SecretTypeClusterAgent = "drover.io/cluster-agent"
	// SecretTypeEndpointKeys is the type of the Secret with the keys of the tokens for a cluster's authorized endpoint.
	SecretTypeEndpointKeys = "drover.io/endpoint-keys"
	// SecretTypeClusterAPI is the type that Cluster API gives to its own Secrets.
	SecretTypeClusterAPI = "cluster.x-k8s.io/secret"
)

// Keys of Secrets.
const (
	// BootstrapDataKey holds the cloud-config or script of a machine.
	BootstrapDataKey = "value"
	// ClusterAgentManifestKey holds the manifest of a cluster's agent as its servers were first given it.
	ClusterAgentManifestKey = "manifest"
	// ClusterAgentTokenKey holds, beside the manifest, the registration token that the agent has: in another management cluster, to which the Cluster has been
	// moved with the Secrets around it, the agent is known by it.
	ClusterAgentTokenKey = "token"
	// ServerTokenKey and AgentTokenKey hold the join tokens of a cluster.
	ServerTokenKey = "serverToken"
	AgentTokenKey  = "agentToken"
	// MachineRequestDataKey holds a JSON object: each registration header's suffix in lower case, with a list of its values.
	MachineRequestDataKey = "data"
	// MachineStateKey holds the gzipped tar of rancher-machine's directory.
	MachineStateKey = "extractedConfig"
	// AuthConfigUsernameKey and the three after it hold a registry's credential.
	AuthConfigUsernameKey      = "username"
	AuthConfigPasswordKey      = "password"
	AuthConfigAuthKey          = "auth"
	AuthConfigIdentityTokenKey = "identityToken"
)
