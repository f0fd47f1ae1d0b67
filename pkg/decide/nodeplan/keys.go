package nodeplan

// Data keys of a plan Secret (docs/wire/plan.md#plan-secret). Agents, servers of other vendors and backup tools depend
// on them.
const (
	// KeyPlan is the plan as compact JSON. The server writes it.
	KeyPlan = "plan"
	// KeyPlanState is a Phase. A non-empty value switches agents to state mode.
	KeyPlanState = "plan-state"
	// KeyPlanRevision is a decimal that the agent increments when it starts a pending plan.
	KeyPlanRevision = "plan-revision"
	// KeyMaxFailures is the number of the agent's attempts, in decimal. -1 or absence means no limit.
	KeyMaxFailures = "max-failures"
	// KeyFailureThreshold is the number of failures at which the server calls a plan failed, in decimal. -1 means
	// never.
	KeyFailureThreshold = "failure-threshold"
	// KeyProbePeriodSeconds is the time between two passes of the agent, in decimal seconds. Default 5.
	KeyProbePeriodSeconds = "probe-period-seconds"
	// KeyAppliedPlan is a copy of the plan that was applied last. The server writes it.
	KeyAppliedPlan = "appliedPlan"
	// KeyAppliedChecksum is the checksum of the plan that the agent applied last.
	KeyAppliedChecksum = "applied-checksum"
	// KeyAppliedOutput is the saved output of one-time instructions, see DecodeOutput.
	KeyAppliedOutput = "applied-output"
	// KeyAppliedPeriodicOutput is the output of periodic instructions, see DecodePeriodicOutput.
	KeyAppliedPeriodicOutput = "applied-periodic-output"
	// KeyFailedChecksum is the checksum of the plan that failed last; empty after a success.
	KeyFailedChecksum = "failed-checksum"
	// KeyFailedOutput is the output of the failed run, like KeyAppliedOutput.
	KeyFailedOutput = "failed-output"
	// KeyFailureCount is the number of consecutive failures, in decimal.
	KeyFailureCount = "failure-count"
	// KeySuccessCount is the number of consecutive successes, in decimal.
	KeySuccessCount = "success-count"
	// KeyLastApplyTime is the time of the last apply in the layout of time.UnixDate, which does not permit arithmetic
	// across time zones.
	KeyLastApplyTime = "last-apply-time"
	// KeyProbeStatuses is the state of the probes, see DecodeProbeStatuses. The server deletes it with each new plan.
	KeyProbeStatuses = "probe-statuses"
	// KeySSHHostKeys are the public keys of the host's SSH server, see EncodeHostKeys.
	KeySSHHostKeys = "ssh-host-keys"
	// KeyAgentVersion is the version of Drover's agent that runs on the node. Agents of other vendors do not write it.
	KeyAgentVersion = "agent-version"
	// KeyAgentUpgrade is the result of the node's last upgrade of its agent, see AgentUpgrade.
	KeyAgentUpgrade = "agent-upgrade"
)

// Phase is a value of KeyPlanState.
type Phase string

// The phases. An agent treats an unknown value as terminal.
const (
	PhasePending    Phase = "pending"
	PhaseInProgress Phase = "in-progress"
	PhaseSucceeded  Phase = "succeeded"
	PhaseFailed     Phase = "failed"
	PhaseCancelled  Phase = "cancelled"
)

// Special values of the two limits of a delivery.
const (
	// NoLimit as max-failures means that the agent tries forever. As failure-threshold, it means that the plan never
	// counts as failed.
	NoLimit = -1
	// Unset removes the key: agents try forever, and the first failure counts.
	Unset = 0
)

// OutputAgentError is the name under which Drover's agent reports in KeyFailedOutput why it could not start. Causes are
// a file that it cannot write, an image that it cannot pull, or a plan that it cannot read. Agents of other vendors do
// not report these.
const OutputAgentError = "agent-error"

// Heard reports whether an agent has reported on any plan, successful or not.
func Heard(data map[string][]byte) bool {
	return len(data[KeyAppliedChecksum])+len(data[KeyFailedChecksum])+len(data[KeyLastApplyTime]) > 0
}

// AgentKey reports whether a data key belongs to an agent's report. All other keys belong to the server or to other
// programs, and an agent has no reason to change them.
func AgentKey(key string) bool {
	switch key {
	case KeyPlanState, KeyPlanRevision, KeyAppliedChecksum, KeyAppliedOutput, KeyAppliedPeriodicOutput,
		KeyFailedChecksum, KeyFailedOutput,
		KeyFailureCount, KeySuccessCount, KeyLastApplyTime, KeyProbeStatuses, KeySSHHostKeys, KeyAgentVersion,
		KeyAgentUpgrade:
		return true
	}
	return false
}
