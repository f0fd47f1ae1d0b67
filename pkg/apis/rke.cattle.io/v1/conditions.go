package v1

// Types of conditions.
const (
	// ConditionReady on CP is true after a full pass; its message is the line that users watch.
	ConditionReady = "Ready"
	// ConditionReconciled on CP is true when all nodes have the spec. On M it says what the planner does with the machine.
	ConditionReconciled = "Reconciled"
	// ConditionStable on CP is false while the cluster lacks a live machine of a role.
	ConditionStable = "Stable"
	// ConditionProvisioned on CP is true once machines of all roles are registered.
	ConditionProvisioned = "Provisioned"
	// ConditionBootstrapped on CP is true once the first machine's tier ran.
	ConditionBootstrapped = "Bootstrapped"
	// ConditionSystemUpgradeControllerReady on CP holds the chart's version when it is true.
	ConditionSystemUpgradeControllerReady = "SystemUpgradeControllerReady"
	// ConditionScalingUp, ConditionScalingDown and ConditionRollingOut on CP are always false: its machines scale elsewhere.
	ConditionScalingUp   = "ScalingUp"
	ConditionScalingDown = "ScalingDown"
	ConditionRollingOut  = "RollingOut"
	// ConditionRemoved says how far a removal is.
	ConditionRemoved = "Removed"
	// ConditionWaiting, ConditionPending and ConditionUpdated are written during removal.
	ConditionWaiting = "Waiting"
	ConditionPending = "Pending"
	ConditionUpdated = "Updated"
	// ConditionPlanApplied on M is false, with what failed, when its plan failed for good.
	ConditionPlanApplied = "PlanApplied"
	// ConditionEtcdMemberLeft on BS is false, with what is waited for, while its machine is deleted and held for its etcd member.
	ConditionEtcdMemberLeft = "EtcdMemberLeft"
	// ConditionInfrastructureReady on M is Cluster API's.
	ConditionInfrastructureReady = "InfrastructureReady"
	// ConditionCreateJob and ConditionDeleteJob on IM follow its Jobs.
	ConditionCreateJob = "CreateJob"
	ConditionDeleteJob = "DeleteJob"
)

// Reasons of conditions and values of failureReason.
const (
	// ReasonWaiting goes with status Unknown and a message that says what is waited for.
	ReasonWaiting = "Waiting"
	// ReasonError goes with status False and the text of an error.
	ReasonError = "Error"
	// ReasonCreateError is the failure of a Job that makes a machine.
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
