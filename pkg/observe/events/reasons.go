package events

// Reason is the reason of an Event. People and programs filter by it: renaming one breaks them.
type Reason string

// Reasons of Events on a provisioning Cluster.
const (
	// ReasonSpecApplied: the objects of the cluster are as the spec asks for.
	ReasonSpecApplied Reason = "SpecApplied"
	// ReasonSpecRefused: they cannot be made from the spec.
	ReasonSpecRefused Reason = "SpecRefused"
	// ReasonIdentityFailed: the cluster has no identity in the management cluster.
	ReasonIdentityFailed Reason = "IdentityFailed"
	// ReasonClusterConnected: its API answered for the first time.
	ReasonClusterConnected Reason = "ClusterConnected"
	// ReasonClusterReady: all its machines have what was asked for.
	ReasonClusterReady Reason = "ClusterReady"
	// ReasonClusterProgressing: something goes on, or is waited for.
	ReasonClusterProgressing Reason = "ClusterProgressing"
	// ReasonClusterNotReady: a person has to look.
	ReasonClusterNotReady Reason = "ClusterNotReady"
	// ReasonClusterDeleting: its removal has begun.
	ReasonClusterDeleting Reason = "ClusterDeleting"
	// ReasonClusterDeletionFailed: its removal does not proceed.
	ReasonClusterDeletionFailed Reason = "ClusterDeletionFailed"
	// ReasonConfigurationQuestioned: its configuration has oddities, which were passed on.
	ReasonConfigurationQuestioned Reason = "ConfigurationQuestioned"
	// ReasonEtcdQuorumWeak: an even number of machines have etcd.
	ReasonEtcdQuorumWeak Reason = "EtcdQuorumWeak"
	// ReasonRenderVersionsUnknown: some machines are on a render version that this Drover does not know.
	ReasonRenderVersionsUnknown Reason = "RenderVersionsUnknown"
	// ReasonUpgradeStarted: another Kubernetes version was asked for.
	ReasonUpgradeStarted Reason = "UpgradeStarted"
	// ReasonUpgradeFinished: all nodes have it.
	ReasonUpgradeFinished Reason = "UpgradeFinished"
	// ReasonOperationStarted: a snapshot, a restore or a rotation has begun.
	ReasonOperationStarted Reason = "OperationStarted"
	// ReasonOperationSucceeded: it did what was asked.
	ReasonOperationSucceeded Reason = "OperationSucceeded"
	// ReasonOperationFailed: it ended before.
	ReasonOperationFailed Reason = "OperationFailed"
	// ReasonOperationCancelled: its request was taken back.
	ReasonOperationCancelled Reason = "OperationCancelled"
	// ReasonPoolRollOut: the machines of a pool are being replaced by those of another template.
	ReasonPoolRollOut Reason = "PoolRollOut"
	// ReasonMachineRemoved: a machine is gone.
	ReasonMachineRemoved Reason = "MachineRemoved"
)

// Reasons of Events on an RKEControlPlane.
const (
	// ReasonMachinesRegistered: there are machines of all roles.
	ReasonMachinesRegistered Reason = "MachinesRegistered"
	// ReasonBootstrapped: the first server runs.
	ReasonBootstrapped Reason = "Bootstrapped"
	// ReasonRoleLost: the cluster has come to lack a live machine of a role.
	ReasonRoleLost Reason = "RoleLost"
)

// Reasons of Events on a Machine.
const (
	// ReasonMachineCreated: there is a new machine.
	ReasonMachineCreated Reason = "MachineCreated"
	// ReasonBootstrapDataFailed: what its host runs first cannot be made.
	ReasonBootstrapDataFailed Reason = "BootstrapDataFailed"
	// ReasonInfrastructureReady: its host was made.
	ReasonInfrastructureReady Reason = "InfrastructureReady"
	// ReasonInfrastructureFailed: its host could not be made.
	ReasonInfrastructureFailed Reason = "InfrastructureFailed"
	// ReasonPlanDelivered: it was given a plan that restarts nothing.
	ReasonPlanDelivered Reason = "PlanDelivered"
	// ReasonMachineRestarting: it was given a plan that restarts what runs there.
	ReasonMachineRestarting Reason = "MachineRestarting"
	// ReasonPlanApplied: the plan was applied and all its probes passed.
	ReasonPlanApplied Reason = "PlanApplied"
	// ReasonPlanFailed: the plan fails on the machine.
	ReasonPlanFailed Reason = "PlanFailed"
	// ReasonNodeRegistered: its node is known.
	ReasonNodeRegistered Reason = "NodeRegistered"
	// ReasonMachineReady: Cluster API finds it ready.
	ReasonMachineReady Reason = "MachineReady"
	// ReasonNodeUnhealthy: its node is not healthy any more.
	ReasonNodeUnhealthy Reason = "NodeUnhealthy"
	// ReasonHealthCheckFailed: the health check of its pool found it unhealthy.
	ReasonHealthCheckFailed Reason = "HealthCheckFailed"
	// ReasonDrainStarted: its node is being drained, before a restart.
	ReasonDrainStarted Reason = "DrainStarted"
	// ReasonDrainFinished: its node is drained.
	ReasonDrainFinished Reason = "DrainFinished"
	// ReasonDrainFailed: its node cannot be drained, which is tried again.
	ReasonDrainFailed Reason = "DrainFailed"
	// ReasonUncordoned: its node takes pods again.
	ReasonUncordoned Reason = "Uncordoned"
	// ReasonMachineReplaced: it is being removed, and another takes its place.
	ReasonMachineReplaced Reason = "MachineReplaced"
	// ReasonMachineDeleting: it is being removed.
	ReasonMachineDeleting Reason = "MachineDeleting"
)

// Reasons of Events on a <Driver>Machine.
const (
	// ReasonHostCreating: a Job makes the host.
	ReasonHostCreating Reason = "HostCreating"
	// ReasonHostCreated: the Job has made it.
	ReasonHostCreated Reason = "HostCreated"
	// ReasonHostCreateFailed: the Job has failed.
	ReasonHostCreateFailed Reason = "HostCreateFailed"
	// ReasonHostBlocked: there is no Job, because its driver or its credential cannot be used.
	ReasonHostBlocked Reason = "HostBlocked"
	// ReasonHostDeleting: a Job removes the host.
	ReasonHostDeleting Reason = "HostDeleting"
	// ReasonHostDeleteFailed: the Job has failed, or nobody can tell whether the host exists.
	ReasonHostDeleteFailed Reason = "HostDeleteFailed"
)

// Reasons of Events on a NodeDriver.
const (
	// ReasonDriverInstalled: the driver can be used.
	ReasonDriverInstalled Reason = "DriverInstalled"
	// ReasonDriverFailed: it could not be installed.
	ReasonDriverFailed Reason = "DriverFailed"
)
