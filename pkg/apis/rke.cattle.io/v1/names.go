package v1

// Every name below is stored in objects, and read by programs other than Drover: none may ever change.
//
// Abbreviations: PC is the provisioning Cluster, CP the RKEControlPlane, RC the RKECluster, BS the RKEBootstrap, M the
// Cluster API Machine, MD its MachineDeployment, IM the infrastructure machine, PS the plan Secret. A label or
// annotation with an empty value counts as absent.

// Labels for the owner of an object and the roles of a machine.
const (
	// ClusterNameLabel is the name of the Cluster API cluster, on all its objects.
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
	// InitNodeLabel is "true" on the PS of the machine that the other machines join.
	InitNodeLabel = "rke.cattle.io/init-node"
	// InitNodeMachineIDLabel is set by users on PC, and copied to CP, to choose the machine that the other machines
	// join.
	InitNodeMachineIDLabel = "rke.cattle.io/init-node-machine-id"
	// MachineIDLabel is the identifier that an agent chose for itself, on M, BS, CustomMachine and PS.
	MachineIDLabel = "rke.cattle.io/machine-id"
	// MachineNameLabel is the name of M, on PS, the ServiceAccounts of a machine, and the request Secret.
	MachineNameLabel = "rke.cattle.io/machine-name"
	// MachineNamespaceLabel is the namespace of M, on the request Secret.
	MachineNamespaceLabel = "rke.cattle.io/machine-namespace"
	// MachineUIDLabel is the UID of M, on the downstream Node: it maps a Node to its Machine.
	MachineUIDLabel = "rke.cattle.io/machine"
	// NodeNameLabel is the node name that a host requested, on M, BS and PS; and the node of a local ETCDSnapshot.
	NodeNameLabel = "rke.cattle.io/node-name"
	// MachineTemplateHashLabel is the hash that a machine template's name ends with.
	MachineTemplateHashLabel = "rke.cattle.io/machine-template-hash"
	// BootstrapNameLabel is the name of BS, on the ServiceAccounts of a machine.
	BootstrapNameLabel = "rke.cattle.io/rkebootstrap-name"
	// ServiceAccountRoleLabel distinguishes the two ServiceAccounts of a machine.
	ServiceAccountRoleLabel = "rke.cattle.io/service-account-role"
	// ServiceAccountRoleBootstrap is the account with which a machine registers.
	ServiceAccountRoleBootstrap = "bootstrap"
	// ServiceAccountRolePlan is the account with which a machine's agent reads its plan.
	ServiceAccountRolePlan = "plan"
	// PlanSecretNameLabel is the name of PS, on the ServiceAccount with the plan role.
	PlanSecretNameLabel = "rke.cattle.io/plan-secret-name"
	// CattleOSLabel is "linux" or OSWindows, on M and MD.
	CattleOSLabel = "cattle.io/os"
	// OSWindows is the value of CattleOSLabel on machines that run Windows.
	OSWindows = "windows"
	// ServiceAccountNameLabel is the name of the ServiceAccount, on its token Secret.
	ServiceAccountNameLabel = "cattle.io/service-account.name"
	// GrantsAnnotation is on a Cluster: the signed authors of its references to Secrets of other namespaces.
	// (docs/security.md.)
	GrantsAnnotation = "drover.io/granted-references"
	// GrantsRenew is the value of GrantsAnnotation in a request that makes its user the author of all references
	// without a valid grant. Admission replaces it by the grants.
	GrantsRenew = "renew"
	// BackupLabel is "true" on objects that a backup of the management cluster must contain.
	BackupLabel = "resources.cattle.io/backup"
	// InfraMachineGroupLabel, InfraMachineVersionLabel, InfraMachineKindLabel and InfraMachineNameLabel name IM on its
	// Job.
	InfraMachineGroupLabel   = "rke.cattle.io/infra-machine-group"
	InfraMachineVersionLabel = "rke.cattle.io/infra-machine-version"
	InfraMachineKindLabel    = "rke.cattle.io/infra-machine-kind"
	InfraMachineNameLabel    = "rke.cattle.io/infra-machine-name"
	// InfraRemoveLabel is "true" on a Job that removes a machine, and "false" on a Job that creates it.
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

// Annotations on PS for joins and drains.
const (
	// JoinURLAnnotation is the URL with which other machines join this machine.
	JoinURLAnnotation = "rke.cattle.io/join-url"
	// JoinedToAnnotation is the URL that this machine joined. Empty on the machine that joined no other machine.
	JoinedToAnnotation = "rke.cattle.io/joined-to"
	// JoinURLAutosetDisabledAnnotation, with any value, leaves the join URL to the user.
	JoinURLAutosetDisabledAnnotation = "rke.cattle.io/join-url-autoset-disabled"
	// DrainAnnotation requests a drain: DrainOptions as JSON with sorted keys.
	DrainAnnotation = "rke.cattle.io/drain-options"
	// PreDrainAnnotation repeats the request once hooks may act before the drain.
	PreDrainAnnotation = "rke.cattle.io/pre-drain"
	// DrainDoneAnnotation repeats the request once the drain is done.
	DrainDoneAnnotation = "rke.cattle.io/drain-done"
	// UncordonAnnotation requests the end of a drain.
	UncordonAnnotation = "rke.cattle.io/uncordon"
	// PostDrainAnnotation repeats the request once hooks may act before the end of the drain.
	PostDrainAnnotation = "rke.cattle.io/post-drain"
	// DrainSinceAnnotation is the time at which the planner last requested a drain, or its end.
	DrainSinceAnnotation = "drover.io/drain-since"
	// DrainErrorAnnotation is why a drain makes no progress.
	DrainErrorAnnotation = "rke.cattle.io/drain-error"
	// PlanUpdatedTimeAnnotation is the time of the last write of the plan, in RFC 3339.
	PlanUpdatedTimeAnnotation = "rke.cattle.io/plan-last-updated"
	// PlanProbesPassedAnnotation is the time at which all probes of the plan passed, in RFC 3339. Empty with a new
	// plan.
	PlanProbesPassedAnnotation = "rke.cattle.io/plan-probes-passed"
)

// Annotations about the life of machines.
const (
	// PreTerminateAnnotation blocks the removal of an etcd machine until its member has left, on M.
	PreTerminateAnnotation = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/rke-bootstrap-cleanup"
	// PreTerminateAnnotationValue is the value of PreTerminateAnnotation.
	PreTerminateAnnotationValue = "rke-bootstrap-controller"
	// ForceRemoveEtcdAnnotation is "true" on a BS whose machine is removed without the removal of its etcd member.
	ForceRemoveEtcdAnnotation = "rke.cattle.io/etcd-force-remove"
	// RemoveRKE2EtcdMemberAnnotation and RemoveK3sEtcdMemberAnnotation request the distribution, on a downstream Node,
	// to remove the member of that node.
	RemoveRKE2EtcdMemberAnnotation = "etcd.rke2.cattle.io/remove"
	RemoveK3sEtcdMemberAnnotation  = "etcd.k3s.cattle.io/remove"
	// RemovedRKE2EtcdMemberAnnotation and RemovedK3sEtcdMemberAnnotation are the distribution's confirmation.
	RemovedRKE2EtcdMemberAnnotation = "etcd.rke2.cattle.io/removed-node-name"
	RemovedK3sEtcdMemberAnnotation  = "etcd.k3s.cattle.io/removed-node-name"
	// ForceMachineRemoveAnnotation is "true" on an IM that is given up after its removal failed.
	ForceMachineRemoveAnnotation = "provisioning.cattle.io/force-machine-remove"
	// ClonedFromGroupVersionAnnotation, ClonedFromKindAnnotation and ClonedFromNameAnnotation name the machine config
	// that a machine template was created from.
	ClonedFromGroupVersionAnnotation = "rke.cattle.io/cloned-from-group-version"
	ClonedFromKindAnnotation         = "rke.cattle.io/cloned-from-kind"
	ClonedFromNameAnnotation         = "rke.cattle.io/cloned-from-name"
	// DeleteMissingCustomMachinesAfterAnnotation is a duration, on PC and RC, after which the Machine of a registered
	// host is deleted whose Node is silent or gone.
	DeleteMissingCustomMachinesAfterAnnotation = "rke.cattle.io/delete-missing-custom-machines-after"
)

// Annotations that let clusters use Secrets and ConfigMaps, and those of a machine's token.
const (
	// AuthorizedObjectAnnotation is a comma list of clusters whose machineSelectorFiles may use the object: names, or,
	// for clusters in other namespaces, NAMESPACE/NAME and NAMESPACE/*, which also allows all other references to a
	// Secret.
	AuthorizedObjectAnnotation = "rke.cattle.io/object-authorized-for-clusters"
	// AuthorizedSecretAnnotation is a comma list of clusters whose configuration may refer to the Secret.
	AuthorizedSecretAnnotation = "v2prov-secret-authorized-for-cluster"
	// AuthorizedSecretDeletesAnnotation is "true" on a Secret that is deleted with the last cluster that it authorizes.
	AuthorizedSecretDeletesAnnotation = "v2prov-authorized-secret-deletes-on-cluster-removal"
	// BootstrapTokenAnnotation is "true" on the token Secret of a machine's bootstrap account.
	BootstrapTokenAnnotation = "rke.cattle.io/bootstrap-token"
	// LastAccessAnnotation is the time of the last use of a bootstrap token, in RFC 3339.
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

// SnapshotClusterSpecKey is the key, in the metadata that the distribution stores with a snapshot, of the Cluster's
// spec in the form of ClusterSpecAnnotation.
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

// Drover's own names. Other programs may rely on them, too.
const (
	// RegistrationRefusedAnnotation, on a machine request, is why its host does not become a machine.
	RegistrationRefusedAnnotation = "drover.io/registration-refused"
	// InstanceAnnotation is the identifier of the Drover that manages a PC, written once when it was adopted.
	InstanceAnnotation = "drover.io/instance"
	// ReleasedByAnnotation is the identifier of the Drover that released a PC, until another instance adopts it.
	ReleasedByAnnotation = "drover.io/released-by"
	// NotedAnnotation, on a PC, is the resource version of Machines up to which an adoption has recorded the machines'
	// state: UID of PC, colon, version. An older cache of Machines does not have the records yet. In another management
	// cluster PC has another UID, and the value has no meaning.
	NotedAnnotation = "drover.io/noted-machines"
	// RenderVersionAnnotation is the render version to which a machine is pinned, on M.
	RenderVersionAnnotation = "drover.io/render-version"
	// MachineUIDAnnotation is the UID of M on its node, on M: the first UID of M. A Machine that was moved or restored
	// to another management cluster has another UID there, and this must not cause a new configuration of its node.
	MachineUIDAnnotation = "drover.io/machine-uid"
	// MemoryAnnotation, on CP, is a copy of the operations in its status, as JSON, because a move or a restore of
	// objects loses the status.
	MemoryAnnotation = "drover.io/memory"
	// RestoredFromAnnotation is the backup from which "drover restore" created an object.
	RestoredFromAnnotation = "drover.io/restored-from"
	// AgentCredentialAnnotation is the digest of the token of a machine's agent, on BS: UID of the BS, colon, SHA-256
	// in hex. It admits the agent after BS was moved or restored to another management cluster, which does not know the
	// earlier tokens.
	AgentCredentialAnnotation = "drover.io/agent-credential"
	// FoundAnnotation contains digests of the plan's sources at the adoption of a machine from another manager, on M.
	// It is removed with the first plan that Drover renders.
	FoundAnnotation = "drover.io/found"
	// ReachedByAgentAnnotation, on the Secret with the manifest of a cluster's agent, is "true" if that agent is the
	// only connection to the cluster: no server prints the administrator's kubeconfig.
	ReachedByAgentAnnotation = "drover.io/reached-by-agent"
	// ProxyTokenAnnotation, on a kubeconfig for the connection through Drover, is the name of the Secret for its token.
	ProxyTokenAnnotation = "drover.io/proxy-token"
	// RollAnnotation, on a PC, requests another render version of machines: VERSION, or POOL=VERSION, or several with
	// commas.
	RollAnnotation = "drover.io/roll-render-version"
	// AgentUpgradeAnnotation, on a PC, requests the server's agent on all nodes. Every new value is a new request.
	AgentUpgradeAnnotation = "drover.io/upgrade-agents"
	// AgentPinAnnotation is the agent that a machine should run, as JSON, on M.
	AgentPinAnnotation = "drover.io/agent-pin"
	// PlanEvidenceAnnotation contains digests of the sources of the plan in a plan secret, on PS.
	PlanEvidenceAnnotation = "drover.io/plan-evidence"
	// DrainSkipAnnotation is "true" on an M whose node changes without a wait for its drain, or for the end of a drain.
	DrainSkipAnnotation = "drover.io/drain-skip"
	// EtcdProofSkipAnnotation is "true" on an M whose node restarts without a check on the node that etcd keeps its
	// quorum.
	EtcdProofSkipAnnotation = "drover.io/etcd-proof-skip"
	// RetryAnnotation is "true" on an M whose node retries a plan after its final failure.
	RetryAnnotation = "drover.io/retry"
	// RollOutSkipAnnotation is "true" on an M that a rollout neither changes nor waits for.
	RollOutSkipAnnotation = "drover.io/roll-out-skip"
	// PausedByOperationAnnotation is the operation that paused the CAPI Cluster, on the Cluster. It is set and removed
	// in the same write as the pause, so a pause without it belongs to the user.
	PausedByOperationAnnotation = "drover.io/paused-by-operation"
	// ProtectAnnotation is "true" on an object that must not be deleted. On a PC it covers all objects of the cluster;
	// "false" on one of its machines exempts that machine.
	ProtectAnnotation = "drover.io/protect"
	// CleanHostAnnotation is "true" or "false" on an M of a registered host, or on a PC for all its hosts: whether
	// Drover removes the distribution and the agent from a host that leaves its cluster.
	CleanHostAnnotation = "drover.io/clean-host"
	// CRDVersionLabel is the version of Drover's types with which a CRD was installed.
	CRDVersionLabel = "drover.io/crd-version"
	// ManagedByLabel and ManagedByDrover mark the CRDs that Drover installs and upgrades.
	ManagedByLabel  = "app.kubernetes.io/managed-by"
	ManagedByDrover = "drover"
)

// Names that control "clusterctl move". (docs/wire/capi.md#move-with-clusterctl.)
const (
	// ClusterctlLabel is on the CRDs whose objects clusterctl examines.
	ClusterctlLabel = "clusterctl.cluster.x-k8s.io"
	// BlockMoveAnnotation, with any value, blocks the move of an object.
	BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"
	// DeleteForMoveAnnotation is on an object that is deleted after its move to another management cluster.
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
	// SecretTypeMachineOutput is the type of the Secret with the last output of a machine's Jobs.
	SecretTypeMachineOutput = "drover.io/machine-output"
	// SecretTypeClusterAgent is the type of the Secret with the manifest of a cluster's agent.
	SecretTypeClusterAgent = "drover.io/cluster-agent"
	// SecretTypeEndpointKeys is the type of the Secret with the keys of the tokens for a cluster's authorized endpoint.
	SecretTypeEndpointKeys = "drover.io/endpoint-keys"
	// SecretTypeClusterAPI is the type that Cluster API gives to its own Secrets.
	SecretTypeClusterAPI = "cluster.x-k8s.io/secret"
)

// Keys of Secrets.
const (
	// BootstrapDataKey contains the cloud-config or script of a machine.
	BootstrapDataKey = "value"
	// ClusterAgentManifestKey contains the first manifest of a cluster's agent that its servers got.
	ClusterAgentManifestKey = "manifest"
	// ClusterAgentTokenKey contains the registration token of the agent in the manifest. It identifies the agent in
	// another management cluster, to which the Cluster was moved with its Secrets.
	ClusterAgentTokenKey = "token"
	// ServerTokenKey and AgentTokenKey contain the join tokens of a cluster.
	ServerTokenKey = "serverToken"
	AgentTokenKey  = "agentToken"
	// MachineRequestDataKey contains a JSON object: each registration header's suffix in lower case, with a list of its
	// values.
	MachineRequestDataKey = "data"
	// MachineRequestTokenKey contains the name of the ClusterRegistrationToken with which the host registers.
	MachineRequestTokenKey = "registration"
	// MachineStateKey contains the gzipped tar of rancher-machine's directory.
	MachineStateKey = "extractedConfig"
	// AuthConfigUsernameKey and the next three keys contain a registry's credential.
	AuthConfigUsernameKey      = "username"
	AuthConfigPasswordKey      = "password"
	AuthConfigAuthKey          = "auth"
	AuthConfigIdentityTokenKey = "identityToken"
)
