package events

// Reason is the reason of an Event. Users and programs filter by it: renaming one breaks them.
type Reason string

// Reasons of Events on a provisioning Cluster.
const (
	// ReasonSpecApplied: the objects of the cluster match its spec.
	ReasonSpecApplied Reason = "SpecApplied"
	// ReasonSpecRefused: Drover cannot apply the spec.
	ReasonSpecRefused Reason = "SpecRefused"
	// ReasonIdentityFailed: the cluster has no identity in the management cluster.
	ReasonIdentityFailed Reason = "IdentityFailed"
	// ReasonClusterConnected: the cluster's API answered for the first time.
	ReasonClusterConnected Reason = "ClusterConnected"
	// ReasonClusterReady: all machines have what the spec asks for.
	ReasonClusterReady Reason = "ClusterReady"
	// ReasonClusterProgressing: the cluster is changing, or waits for something.
	ReasonClusterProgressing Reason = "ClusterProgressing"
	// ReasonClusterNotReady: the cluster needs a user's attention.
	ReasonClusterNotReady Reason = "ClusterNotReady"
	// ReasonClusterDeleting: the removal has begun.
	ReasonClusterDeleting Reason = "ClusterDeleting"
	// ReasonClusterDeletionFailed: the removal does not proceed.
	ReasonClusterDeletionFailed Reason = "ClusterDeletionFailed"
	// ReasonDeletionHeld: only finalizers of other programs hold a deleted object. Also on other kinds.
	ReasonDeletionHeld Reason = "DeletionHeld"
	// ReasonConfigurationQuestioned: the configuration has questionable parts, which were passed on.
	ReasonConfigurationQuestioned Reason = "ConfigurationQuestioned"
	// ReasonFleetQuestioned: Fleet does not get the cluster as its spec asks.
	ReasonFleetQuestioned Reason = "FleetQuestioned"
	// ReasonEtcdQuorumWeak: an even number of machines have etcd.
	ReasonEtcdQuorumWeak Reason = "EtcdQuorumWeak"
	// ReasonRenderVersionsUnknown: some machines have a render version that this Drover does not know.
	ReasonRenderVersionsUnknown Reason = "RenderVersionsUnknown"
	// ReasonAgentsNotUpgraded: the upgrade of a node's agent failed.
	ReasonAgentsNotUpgraded Reason = "AgentsNotUpgraded"
	// ReasonUpgradeStarted: another Kubernetes version was requested.
	ReasonUpgradeStarted Reason = "UpgradeStarted"
	// ReasonUpgradeFinished: all nodes have the requested version.
	ReasonUpgradeFinished Reason = "UpgradeFinished"
	// ReasonOperationStarted: a snapshot, a restore or a rotation has begun.
	ReasonOperationStarted Reason = "OperationStarted"
	// ReasonOperationSucceeded: the operation is complete.
	ReasonOperationSucceeded Reason = "OperationSucceeded"
	// ReasonOperationFailed: the operation failed.
	ReasonOperationFailed Reason = "OperationFailed"
	// ReasonOperationCancelled: the request was withdrawn.
	ReasonOperationCancelled Reason = "OperationCancelled"
	// ReasonHostMissing: the Machine of a registered host is removed, because the host was away for too long.
	ReasonHostMissing Reason = "HostMissing"
	// ReasonHostCleaning: a registered host that leaves the cluster removes the distribution and the agent.
	ReasonHostCleaning Reason = "HostCleaning"
	// ReasonHostCleaned: a registered host that left the cluster is clean.
	ReasonHostCleaned Reason = "HostCleaned"
	// ReasonHostNotCleaned: a registered host left the cluster and still has the distribution, the agent or their data.
	ReasonHostNotCleaned Reason = "HostNotCleaned"
	// ReasonConfigurationRestored: a restore has put the configuration of its snapshot back into the spec.
	ReasonConfigurationRestored Reason = "ConfigurationRestored"
	// ReasonPoolRollOut: the machines of a pool are being replaced, because their template changed.
	ReasonPoolRollOut Reason = "PoolRollOut"
)

// Reasons of Events on the Secret of a cloud credential.
const (
	// ReasonCredentialAccepted: the cloud accepts the credential.
	ReasonCredentialAccepted Reason = "CredentialAccepted"
	// ReasonCredentialRejected: the cloud does not accept the credential.
	ReasonCredentialRejected Reason = "CredentialRejected" //nolint:gosec // the name of a reason, no credential
	// ReasonCredentialExpired: the credential has expired.
	ReasonCredentialExpired Reason = "CredentialExpired" //nolint:gosec // the name of a reason, no credential
	// ReasonCredentialUnchecked: the cloud gave no answer about the credential.
	ReasonCredentialUnchecked Reason = "CredentialUnchecked" //nolint:gosec // the name of a reason, no credential
)

// Reasons of steps of machines (Step): Events on a provisioning Cluster.
const (
	// ReasonMachineCreated: machines were created.
	ReasonMachineCreated Reason = "MachineCreated"
	// ReasonHostCreated: Jobs have created hosts.
	ReasonHostCreated Reason = "HostCreated"
	// ReasonInfrastructureReady: machines have hosts that no Job creates.
	ReasonInfrastructureReady Reason = "InfrastructureReady"
	// ReasonPlanDelivered: machines got plans that restart nothing. On a Machine: its plan is retried.
	ReasonPlanDelivered Reason = "PlanDelivered"
	// ReasonPlanApplied: machines applied their plans, and all probes pass.
	ReasonPlanApplied Reason = "PlanApplied"
	// ReasonNodeRegistered: the nodes of machines are known.
	ReasonNodeRegistered Reason = "NodeRegistered"
	// ReasonMachineReady: Cluster API reports machines as ready.
	ReasonMachineReady Reason = "MachineReady"
	// ReasonMachineDeleting: machines are being removed.
	ReasonMachineDeleting Reason = "MachineDeleting"
	// ReasonHostDeleting: Jobs remove hosts.
	ReasonHostDeleting Reason = "HostDeleting"
	// ReasonMachineRemoved: machines no longer exist.
	ReasonMachineRemoved Reason = "MachineRemoved"
)

// Reasons of Events on a FleetWorkspace.
const (
	// ReasonWorkspaceQuestioned: the workspace cannot be created, or clusters hold its deletion.
	ReasonWorkspaceQuestioned Reason = "WorkspaceQuestioned"
)

// Reasons of Events on an RKEControlPlane.
const (
	// ReasonMachinesRegistered: machines of all roles exist.
	ReasonMachinesRegistered Reason = "MachinesRegistered"
	// ReasonBootstrapped: the first server runs.
	ReasonBootstrapped Reason = "Bootstrapped"
	// ReasonRoleLost: the cluster no longer has a live machine of a role.
	ReasonRoleLost Reason = "RoleLost"
)

// Reasons of Events on a Machine.
const (
	// ReasonBootstrapDataFailed: the bootstrap data of the host cannot be created.
	ReasonBootstrapDataFailed Reason = "BootstrapDataFailed"
	// ReasonInfrastructureFailed: the host could not be created.
	ReasonInfrastructureFailed Reason = "InfrastructureFailed"
	// ReasonMachineRestarting: the machine got a plan that restarts Kubernetes on it.
	ReasonMachineRestarting Reason = "MachineRestarting"
	// ReasonPlanFailed: the plan fails on the machine.
	ReasonPlanFailed Reason = "PlanFailed"
	// ReasonNodeUnhealthy: the node is no longer healthy.
	ReasonNodeUnhealthy Reason = "NodeUnhealthy"
	// ReasonHealthCheckFailed: the health check of the pool found the machine unhealthy.
	ReasonHealthCheckFailed Reason = "HealthCheckFailed"
	// ReasonDrainStarted: the node is being drained before a restart.
	ReasonDrainStarted Reason = "DrainStarted"
	// ReasonDrainFinished: the node is drained.
	ReasonDrainFinished Reason = "DrainFinished"
	// ReasonDrainFailed: the node cannot be drained. Drover retries.
	ReasonDrainFailed Reason = "DrainFailed"
	// ReasonUncordoned: the node accepts pods again.
	ReasonUncordoned Reason = "Uncordoned"
	// ReasonMachineReplaced: the machine is being removed, and another one replaces it.
	ReasonMachineReplaced Reason = "MachineReplaced"
)

// Reasons of Events on a <Driver>Machine.
const (
	// ReasonHostCreating: a Job creates the host, after a wait.
	ReasonHostCreating Reason = "HostCreating"
	// ReasonHostCreateFailed: the Job that creates the host has failed.
	ReasonHostCreateFailed Reason = "HostCreateFailed"
	// ReasonHostBlocked: there is no Job, because the driver or the credential cannot be used.
	ReasonHostBlocked Reason = "HostBlocked"
	// ReasonHostDeleteFailed: the Job that removes the host has failed, or it is unknown whether the host exists.
	ReasonHostDeleteFailed Reason = "HostDeleteFailed"
)

// Reasons of Events on a Secret or ConfigMap of a user.
const (
	// ReasonSyncRefused: a cluster has no copy of the object, or an old one.
	ReasonSyncRefused Reason = "SyncRefused"
)

// Reasons of Events on a NodeDriver.
const (
	// ReasonDriverInstalled: the driver can be used.
	ReasonDriverInstalled Reason = "DriverInstalled"
	// ReasonDriverFailed: the driver could not be installed.
	ReasonDriverFailed Reason = "DriverFailed"
)

// Reasons of Events on a ManagedChart.
const (
	// ReasonChartDefined: the Bundle matches the spec.
	ReasonChartDefined Reason = "ChartDefined"
	// ReasonChartFailed: there is no Bundle that matches the spec.
	ReasonChartFailed Reason = "ChartFailed"
)
