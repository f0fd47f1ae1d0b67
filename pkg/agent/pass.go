package agent

import (
	"maps"
	"strconv"
	"time"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

const (
	// retryCooldown is the minimum time between the first two attempts of a failing plan. It doubles with each further
	// attempt, up to maxCooldown.
	retryCooldown = 30 * time.Second
	maxCooldown   = 10 * time.Minute
	// defaultPeriod is the time between two passes without events.
	defaultPeriod = 5 * time.Second
	// unhealthyPeriod replaces it while a probe is unhealthy soon after an apply, when a server waits for the probe.
	unhealthyPeriod = time.Second
)

// decision is what one pass does with the plan.
type decision struct {
	// apply runs files and one-time instructions.
	apply bool
	// attempt is the value of CATTLE_AGENT_ATTEMPT_NUMBER for instructions. It starts at 1.
	attempt int
	// stateMode means that the server uses "plan-state".
	stateMode bool
	// begin must be written to the Secret before anything runs. It is nil when there is nothing to write.
	begin map[string][]byte
	// retryAfter is when to make the next pass without an event. It is 0 when only events matter.
	retryAfter time.Duration
}

// decide decides whether the plan must run. data is the data of the Secret. confirmed means that this machine's
// records, or this process, know that the plan of "applied-checksum" was applied here. now is compared with the time of
// the last apply.
//
// In checksum mode a plan runs unless it is the last applied one, has failed too often, or failed very recently. An
// applied plan without a record on this machine runs again: either the disk was replaced, or another agent applied it.
//
// started is when this process began. After a restart of the agent the pause is short again, so that a user who
// repaired the host need not wait.
func decide(data map[string][]byte, confirmed bool, started, now time.Time) decision {
	checksum := nodeplan.Checksum(data[nodeplan.KeyPlan])
	failures := 0
	if string(data[nodeplan.KeyFailedChecksum]) == checksum {
		failures = max(0, number(data, nodeplan.KeyFailureCount, 0))
	}
	d := decision{attempt: failures + 1}
	if state := nodeplan.Phase(data[nodeplan.KeyPlanState]); state != "" {
		return decideState(d, data, state)
	}
	if string(data[nodeplan.KeyAppliedChecksum]) == checksum && confirmed {
		return d
	}
	if failures > 0 {
		if limit := number(data, nodeplan.KeyMaxFailures, nodeplan.NoLimit); limit != nodeplan.NoLimit &&
			failures >= limit {
			return d
		}
		pause, ago := cooldown(failures), since(data, nodeplan.KeyLastApplyTime, now)
		if ago > now.Sub(started) {
			pause = retryCooldown
		}
		if wait := pause - ago; wait > 0 {
			d.retryAfter = min(wait, pause)
			return d
		}
	}
	d.apply = true
	return d
}

// cooldown is the pause after that many failures of a plan.
func cooldown(failures int) time.Duration {
	pause := retryCooldown
	for n := 1; n < failures && pause < maxCooldown; n++ {
		pause *= 2
	}
	return min(pause, maxCooldown)
}

// decideState is decide for state mode. A pending plan runs after its start was recorded. An in-progress plan was left
// by a killed agent and runs again. All other states are terminal.
func decideState(d decision, data map[string][]byte, state nodeplan.Phase) decision {
	d.stateMode = true
	switch state {
	case nodeplan.PhasePending:
		d.apply, d.attempt = true, 1
		d.begin = map[string][]byte{
			nodeplan.KeyPlanState:    []byte(nodeplan.PhaseInProgress),
			nodeplan.KeyPlanRevision: decimal(number(data, nodeplan.KeyPlanRevision, 0) + 1),
		}
	case nodeplan.PhaseInProgress:
		d.apply = true
	default:
	}
	return d
}

// result is the result of one pass.
type result struct {
	// applied means that files and one-time instructions ran. succeeded means that all of them succeeded.
	applied, succeeded bool
	// ran means that the result has new output, of one-time or periodic instructions.
	ran bool
	// output is the output of the one-time instructions of this run.
	output map[string][]byte
	// periodic is the output of all periodic instructions of the plan.
	periodic map[string]plan.PeriodicInstructionOutput
	// probes is the new state of the plan's probes.
	probes map[string]plan.ProbeStatus
	// at is when the apply ended.
	at time.Time
	// slim is what the report omits because the server does not accept a larger one.
	slim slimness
}

// record returns the data keys that report a result. It omits keys whose values would not change, so that an idle node
// writes nothing.
func record(data map[string][]byte, d decision, r result) (map[string][]byte, error) {
	out := map[string][]byte{}
	var err error
	if out[nodeplan.KeyAppliedPeriodicOutput], err = nodeplan.EncodePeriodicOutput(r.reportedPeriodic()); err != nil {
		return nil, err
	}
	if out[nodeplan.KeyProbeStatuses], err = nodeplan.EncodeProbeStatuses(r.probes); err != nil {
		return nil, err
	}
	if r.applied {
		if err := recordApply(out, data, d, r); err != nil {
			return nil, err
		}
	} else if err := slimStored(out, data, r); err != nil {
		return nil, err
	}
	maps.DeleteFunc(out, func(key string, value []byte) bool {
		old, exists := data[key]
		return exists && string(old) == string(value)
	})
	return out, nil
}

func recordApply(out, data map[string][]byte, d decision, r result) error {
	checksum := []byte(nodeplan.Checksum(data[nodeplan.KeyPlan]))
	output := carriedOver(data, r)
	maps.Copy(output, r.reportedOutput())
	encoded, err := nodeplan.EncodeOutput(output)
	if err != nil {
		return err
	}
	out[nodeplan.KeyLastApplyTime] = []byte(unixDate(r.at))
	state := nodeplan.PhaseSucceeded
	if r.succeeded {
		out[nodeplan.KeyAppliedChecksum] = checksum
		out[nodeplan.KeyAppliedOutput] = encoded
		out[nodeplan.KeySuccessCount] = decimal(number(data, nodeplan.KeySuccessCount, 0) + 1)
		out[nodeplan.KeyFailureCount] = decimal(0)
		out[nodeplan.KeyFailedChecksum] = []byte{}
		out[nodeplan.KeyFailedOutput] = []byte{}
	} else {
		state = nodeplan.PhaseFailed
		out[nodeplan.KeyFailedChecksum] = checksum
		out[nodeplan.KeyFailedOutput] = encoded
		out[nodeplan.KeyFailureCount] = decimal(d.attempt)
		out[nodeplan.KeySuccessCount] = decimal(0)
		if r.slim >= slimFormer {
			out[nodeplan.KeyAppliedOutput] = []byte{}
		}
	}
	if d.stateMode {
		out[nodeplan.KeyPlanState] = []byte(state)
	}
	return nil
}

// nextPass is the time until the next pass if no event comes first.
func nextPass(data map[string][]byte, probes map[string]plan.ProbeStatus, d decision,
	sinceApply time.Duration) time.Duration {
	wait := defaultPeriod
	if seconds := number(data, nodeplan.KeyProbePeriodSeconds, 0); seconds > 0 {
		wait = time.Duration(seconds) * time.Second
	}
	if sinceApply < 10*time.Minute {
		for _, status := range probes {
			if !status.Healthy {
				wait = min(wait, unhealthyPeriod)
			}
		}
	}
	if d.retryAfter > 0 {
		wait = min(wait, d.retryAfter)
	}
	return wait
}

// unixDate formats a time for the wire. The format contains only a zone abbreviation, so the time is always UTC.
func unixDate(t time.Time) string { return t.UTC().Format(time.UnixDate) }

// since is the time since the timestamp under a key. It is very long when the timestamp is missing, malformed or in the
// future.
func since(data map[string][]byte, key string, now time.Time) time.Duration {
	return age(string(data[key]), now)
}

func age(text string, now time.Time) time.Duration {
	const veryLong = 100 * 365 * 24 * time.Hour
	t, err := time.Parse(time.UnixDate, text)
	if err != nil || t.After(now.Add(time.Second)) {
		return veryLong
	}
	return now.Sub(t)
}

// number reads a decimal of the protocol. Missing or malformed values count as otherwise, as in all agents.
func number(data map[string][]byte, key string, otherwise int) int {
	n, err := strconv.Atoi(string(data[key]))
	if err != nil {
		return otherwise
	}
	return n
}

func decimal(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }
