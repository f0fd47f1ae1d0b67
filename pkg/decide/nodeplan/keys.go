package nodeplan

// Data keys of a plan secret (docs/wire/plan.md#plan-secret). Agents, servers of other makes and backup tools depend on
// them.
const (
	// KeyPlan holds the plan as compact JSON. Written by the server.
	KeyPlan = "plan"
	// KeyPlanState holds a Phase. A non-empty value switches agents into state mode.
	KeyPlanState = "plan-state"
	// KeyPlanRevision holds a decimal that the agent raises by one when it starts a pending plan.
	KeyPlanRevision = "plan-revision"
	// KeyMaxFailures holds the number of attempts the agent makes, as decimal; -1 or absence mean no limit.
	KeyMaxFailures = "max-failures"
	// KeyFailureThreshold holds the number of failures from which the server calls a plan failed, as decimal; -1 means never.
	KeyFailureThreshold = "failure-threshold"
	// KeyProbePeriodSeconds holds the time between two passes of the agent, in decimal seconds. Default 5.
	KeyProbePeriodSeconds = "probe-period-seconds"
	// KeyAppliedPlan holds a copy of the plan that was applied last. Written by the server.
	KeyAppliedPlan = "appliedPlan"
	// KeyAppliedChecksum holds the checksum of the plan that the agent applied last.
	KeyAppliedChecksum = "applied-checksum"
	// KeyAppliedOutput holds the saved output of one-time instructions, see DecodeOutput.
	KeyAppliedOutput = "applied-output"
	// KeyAppliedPeriodicOutput holds the output of periodic instructions, see DecodePeriodicOutput.
	KeyAppliedPeriodicOutput = "applied-periodic-output"
	// KeyFailedChecksum holds the checksum of the plan that failed last; empty after a success.
	KeyFailedChecksum = "failed-checksum"
	// KeyFailedOutput holds the output of the failed run, like KeyAppliedOutput.
	KeyFailedOutput = "failed-output"
	// KeyFailureCount holds the number of failures in a row, as decimal.
	KeyFailureCount = "failure-count"
	// KeySuccessCount holds the number of successes in a row, as decimal.
	KeySuccessCount = "success-count"
	// KeyLastApplyTime holds the time of the last apply in the layout of time.UnixDate, which is not fit for arithmetic
	// across time zones.
	KeyLastApplyTime = "last-apply-time"
	// KeyProbeStatuses holds the state of the probes, see DecodeProbeStatuses. The server deletes it with each new plan.
	KeyProbeStatuses = "probe-statuses"
)

// Phase is a value of KeyPlanState.
type Phase string

// The phases. An agent treats a value it does not know as terminal.
const (
	PhasePending    Phase = "pending"
	PhaseInProgress Phase = "in-progress"
	PhaseSucceeded  Phase = "succeeded"
	PhaseFailed     Phase = "failed"
	PhaseCancelled  Phase = "cancelled"
)

// Special values of the two limits of a delivery.
const (
	// NoLimit as max-failures means that the agent tries for ever; as failure-threshold, that the plan never counts as failed.
	NoLimit = -1
	// Unset removes the key: agents try for ever, and the first failure counts.
	Unset = 0
)

// OutputAgentError is the name under which our agent reports in KeyFailedOutput why it could not even start: a file it cannot
// write, an image it cannot get, a plan it cannot read. Agents of other makes leave no report in these cases.
const OutputAgentError = "agent-error"

// Heard tells whether an agent has reported on a plan, whichever, successful or not.
func Heard(data map[string][]byte) bool {
	return len(data[KeyAppliedChecksum])+len(data[KeyFailedChecksum])+len(data[KeyLastApplyTime]) > 0
}

// AgentKey tells whether a data key holds what an agent reports. All others are the server's or somebody else's, and an agent
// has no reason to change them.
func AgentKey(key string) bool {
	switch key {
	case KeyPlanState, KeyPlanRevision, KeyAppliedChecksum, KeyAppliedOutput, KeyAppliedPeriodicOutput, KeyFailedChecksum, KeyFailedOutput,
		KeyFailureCount, KeySuccessCount, KeyLastApplyTime, KeyProbeStatuses:
		return true
	}
	return false
}
