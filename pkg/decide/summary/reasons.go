package summary

import (
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/machinejob"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/tenancy"
)

// Reasons that no condition has.
const (
	// ReasonDeleting: the object is being removed.
	ReasonDeleting = "Deleting"
	// ReasonInfrastructure: the machine has no host yet.
	ReasonInfrastructure = "InfrastructureNotReady"
	// ReasonNode: the machine has a host but no node yet.
	ReasonNode = "NodeMissing"
	// ReasonUnhealthy: the node is not healthy.
	ReasonUnhealthy = "NodeUnhealthy"
	// ReasonPlan: the plan failed.
	ReasonPlan = "PlanFailed"
	// ReasonPaused: a user has paused the object.
	ReasonPaused = string(planner.ReasonPaused)
	// ReasonOverdue: the removal takes too long.
	ReasonOverdue = "DeletionOverdue"
)

// FailureReasons returns the condition reasons that need a user's attention.
func FailureReasons() []string { return slices.Clone(failureReasons) }

// IsFailure reports whether a condition with that reason needs a user's attention.
func IsFailure(reason string) bool { return slices.Contains(failureReasons, reason) }

var failureReasons = func() []string {
	out := []string{
		rkev1.ReasonError, rkev1.ReasonCreateError, rkev1.ReasonDeleteError,
		machinejob.ReasonCredential, machinejob.ReasonDriver, machinejob.ReasonState, machinejob.ReasonUnconfirmed,
		tenancy.ReasonAccessDenied,
		"InvalidSpec", ReasonOverdue, "ManagementNameTaken", bootstrapdata.ReasonBadInput,
	}
	for _, reason := range planner.Reasons() {
		out = append(out, string(reason))
	}
	return out
}()
