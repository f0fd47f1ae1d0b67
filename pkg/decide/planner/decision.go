package planner

import (
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/disruption"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Decision is what must happen now.
type Decision struct {
	// Step is the step that ended the walk.
	Step string `json:"step"`
	// Ticket is written to the status of the control plane before any effect. It is nil when nothing disruptive
	// happens.
	Ticket *rkev1.DisruptionTicket `json:"ticket,omitempty"`
	// Effects happen in this order. When an effect fails, the rest is skipped, unless the effect delivers a plan or
	// sets a condition.
	Effects []Effect `json:"effects,omitempty"`
	// Wait says what Drover waits for, nil when the cluster is in order.
	Wait *Wait `json:"wait,omitempty"`
	// Status is the whole new status. It equals the old one when nothing changes.
	Status rkev1.RKEControlPlaneStatus `json:"status"`
	// Warnings are oddities of the configuration, found while rendering.
	Warnings []render.Warning `json:"warnings,omitempty"`
	// Trace says why each step before Step passed.
	Trace []Trace `json:"trace,omitempty"`
}

// Trace is one line of explanation.
type Trace struct {
	Step string `json:"step"`
	Why  string `json:"why"`
}

// Wait says what Drover waits for.
type Wait struct {
	// Reason is a constant.
	Reason Reason `json:"reason"`
	// Message is stable: it changes only with the situation. It names at most three machines.
	Message string `json:"message"`
	// Wakes are the events that end the wait. Never empty.
	Wakes []Wake `json:"wakes"`
	// After is an additional timer, 0 for none.
	After time.Duration `json:"after,omitempty"`
	// Failed is true for a wait that only the user can end.
	Failed bool `json:"failed,omitempty"`
	// Quiet is true when the reported status stays as it is, because the situation is not known.
	Quiet bool `json:"quiet,omitempty"`
}

// Reason is why the planner waits.
type Reason string

// The reasons.
const (
	ReasonCacheBehind       Reason = "CacheBehind"
	ReasonDeleting          Reason = "Deleting"
	ReasonInvalidVersion    Reason = "InvalidVersion"
	ReasonNoCluster         Reason = "ClusterMissing"
	ReasonInfrastructure    Reason = "InfrastructureNotReady"
	ReasonUninitializing    Reason = "Uninitializing"
	ReasonMissingRole       Reason = "RoleMissing"
	ReasonEtcdDeleting      Reason = "EtcdMachinesDeleting"
	ReasonEtcdStays         Reason = "EtcdMembersStay"
	ReasonTokens            Reason = "CreatingTokens"
	ReasonTokensLost        Reason = "TokensLost"
	ReasonTokensUnusable    Reason = "TokensUnusable"
	ReasonAgentManifest     Reason = "AgentManifestMissing"
	ReasonAgentInvalid      Reason = "AgentManifestInvalid"
	ReasonPaused            Reason = "Paused"
	ReasonRestoreRequired   Reason = "RestoreRequired"
	ReasonNoInitNode        Reason = "NoViableInitNode"
	ReasonInitNodeLost      Reason = "InitNodeLost"
	ReasonDesignatedAbsent  Reason = "DesignatedInitNodeAbsent"
	ReasonConfiguring       Reason = "ConfiguringNodes"
	ReasonDraining          Reason = "DrainingNodes"
	ReasonDrainOverdue      Reason = "DrainOverdue"
	ReasonUncordoning       Reason = "UncordoningNodes"
	ReasonChangePending     Reason = "ChangePending"
	ReasonEtcdUnhealthy     Reason = "EtcdMembersUnhealthy"
	ReasonPoolPaused        Reason = "MachinePoolPaused"
	ReasonLeftOut           Reason = "MachinesLeftOut"
	ReasonRenderFailed      Reason = "RenderFailed"
	ReasonPlanTooLarge      Reason = "PlanTooLarge"
	ReasonVersionUnknown    Reason = "RenderVersionUnknown"
	ReasonJoinURL           Reason = "JoinURLUnknown"
	ReasonControlPlane      Reason = "ControlPlaneUnavailable"
	ReasonMachinesUnhealthy Reason = "MachinesUnhealthy"
	ReasonOperation         Reason = "OperationInProgress"
	ReasonOperationFailed   Reason = "OperationFailed"
	ReasonResuming          Reason = "ResumingCluster"
	ReasonUpgradingAgents   Reason = "UpgradingAgents"
)

// Wake names a source of events that queue the planner.
type Wake string

// The sources. The controller registers a handler for each.
const (
	WakeControlPlane Wake = "RKEControlPlane"
	WakeCluster      Wake = "Cluster"
	WakeMachine      Wake = "Machine"
	WakePlanSecret   Wake = "PlanSecret"
	WakeStateSecret  Wake = "ClusterStateSecret"
	// WakeAgentManifest is the Secret with the manifest of the cluster's agent.
	WakeAgentManifest Wake = "AgentManifest"
	WakeConfigObject  Wake = "ConfigurationObject"
	WakeManagement    Wake = "ManagementCluster"
	WakeSnapshot      Wake = "ETCDSnapshot"
)

// Effect is one idempotent API call. The set of effects is closed, so an interpreter can be complete.
type Effect interface{ effect() }

// CreateTokens creates the cluster state Secret with new random tokens, unless it exists.
type CreateTokens struct{}

// MarkMachine sets the planner's notes on a Machine to Marks.
type MarkMachine struct {
	Machine string `json:"machine"`
	Marks   Marks  `json:"marks"`
}

// DeliverPlan writes a plan to a machine's plan Secret.
type DeliverPlan struct {
	Machine string `json:"machine"`
	// Secret is the name of the plan Secret.
	Secret string `json:"secret"`
	// Delivery is the plan with its limits.
	Delivery Delivery `json:"delivery"`
	// Marks are repeated on the Secret.
	Marks Marks `json:"marks"`
	// First is true for the first plan of a machine.
	First bool `json:"first,omitempty"`
	// Evidence says what the plan was rendered from. It is stored with the plan.
	Evidence string `json:"evidence,omitempty"`
	// Cause is why the plan restarts the distribution on the machine, empty when it does not.
	Cause disruption.Cause `json:"cause,omitempty"`
	// Again is true for a plan that the node has given up and must try again, as often as the first time.
	Again bool `json:"again,omitempty"`
}

// Delivery is an encoded plan with its limits.
type Delivery struct {
	Plan             []byte `json:"plan"`
	Checksum         string `json:"checksum"`
	MaxFailures      int    `json:"maxFailures"`
	FailureThreshold int    `json:"failureThreshold"`
}

// RequestDrain requests the drain of a node, and removes the previous request and answer.
type RequestDrain struct {
	Machine string `json:"machine"`
	Secret  string `json:"secret"`
	// At is the time of the decision.
	At time.Time `json:"at,omitzero"`
	// Options are DrainOptions as JSON with sorted keys.
	Options string `json:"options"`
	// Cause is why the node is drained.
	Cause disruption.Cause `json:"cause"`
}

// RequestUncordon requests the end of a drain.
type RequestUncordon struct {
	Machine string `json:"machine"`
	Secret  string `json:"secret"`
	// At is the time of the decision.
	At time.Time `json:"at,omitzero"`
	// Options are those of the drain.
	Options string `json:"options"`
}

// WithdrawInitLabel removes the label of the init node from a plan Secret.
type WithdrawInitLabel struct {
	Machine string `json:"machine"`
	Secret  string `json:"secret"`
}

// PublishJoinURL repeats a server's join URL on its plan Secret, where other programs look for it.
type PublishJoinURL struct {
	Machine string `json:"machine"`
	Secret  string `json:"secret"`
	JoinURL string `json:"joinURL"`
}

// SetMachineCondition sets the condition Reconciled of a Machine.
type SetMachineCondition struct {
	Machine   string    `json:"machine"`
	Condition Condition `json:"condition"`
}

// ResetClusterInitialized sets the condition ControlPlaneInitialized of the CAPI Cluster to False.
type ResetClusterInitialized struct{}

// ForceRemoveMachine lets a deleting etcd machine go without waiting for the removal of its member or for its node.
type ForceRemoveMachine struct {
	Machine string `json:"machine"`
}

// PauseCluster sets spec.paused of the CAPI Cluster, and notes the operation in the same write.
type PauseCluster struct {
	Operation string `json:"operation"`
}

// ResumeCluster ends a pause that an operation has noted as its own, and removes the note. Without a note it does
// nothing.
type ResumeCluster struct{}

func (CreateTokens) effect()            {}
func (MarkMachine) effect()             {}
func (DeliverPlan) effect()             {}
func (RequestDrain) effect()            {}
func (RequestUncordon) effect()         {}
func (WithdrawInitLabel) effect()       {}
func (PublishJoinURL) effect()          {}
func (SetMachineCondition) effect()     {}
func (ResetClusterInitialized) effect() {}
func (ForceRemoveMachine) effect()      {}
func (PauseCluster) effect()            {}
func (ResumeCluster) effect()           {}
