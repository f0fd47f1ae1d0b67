package v1

// Types of conditions.
const (
	// ConditionReady on CP is true after a full pass; its message shows users the progress.
	ConditionReady = "Ready"
	// ConditionReconciled on CP is true when all nodes have the spec. On M it shows what the planner does with the
	// machine.
	ConditionReconciled = "Reconciled"
	// ConditionStable on CP is false while the cluster lacks a live machine of a role.
	ConditionStable = "Stable"
	// ConditionProvisioned on CP is true once machines of all roles are registered.
	ConditionProvisioned = "Provisioned"
	// ConditionBootstrapped on CP is true after the tier of the first machine ran.
	ConditionBootstrapped = "Bootstrapped"
	// ConditionSystemUpgradeControllerReady on CP holds the chart's version when it is true.
	ConditionSystemUpgradeControllerReady = "SystemUpgradeControllerReady"
	// ConditionScalingUp, ConditionScalingDown and ConditionRollingOut on CP are always false: its machines scale
	// elsewhere.
	ConditionScalingUp   = "ScalingUp"
	ConditionScalingDown = "ScalingDown"
	ConditionRollingOut  = "RollingOut"
	// ConditionRemoved is the progress of a removal.
	ConditionRemoved = "Removed"
	// ConditionWaiting, ConditionPending and ConditionUpdated are written during removal.
	ConditionWaiting = "Waiting"
	ConditionPending = "Pending"
	ConditionUpdated = "Updated"
	// ConditionPlanApplied on M is false, with the failure, after the final failure of its plan.
	ConditionPlanApplied = "PlanApplied"
	// ConditionHostCleaned on a CustomMachine that is being deleted shows whether its host is cleaned.
	ConditionHostCleaned = "HostCleaned"
	// ConditionEtcdMemberLeft on BS is false, with the reason, while the removal of its machine waits for its etcd
	// member.
	ConditionEtcdMemberLeft = "EtcdMemberLeft"
	// ConditionInfrastructureReady on M belongs to Cluster API.
	ConditionInfrastructureReady = "InfrastructureReady"
	// ConditionCreateJob and ConditionDeleteJob on IM follow its Jobs.
	ConditionCreateJob = "CreateJob"
	ConditionDeleteJob = "DeleteJob"
)

// Reasons of conditions and values of failureReason.
const (
	// ReasonWaiting has status Unknown and a message about the wait.
	ReasonWaiting = "Waiting"
	// ReasonError has status False and the text of an error.
	ReasonError = "Error"
	// ReasonCreateError is the failure of a Job that creates a machine.
	ReasonCreateError = "CreateError"
	// ReasonDeleteError is the failure of a Job that removes a machine.
	ReasonDeleteError = "DeleteError"
)

// Statuses of GenericCondition.
const (
	ConditionTrue    = "True"
	ConditionFalse   = "False"
	ConditionUnknown = "Unknown"
)
