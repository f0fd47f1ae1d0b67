package fakeagent

import (
	"bytes"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// memory is the state that an agent keeps between passes.
type memory struct {
	// applied counts successful applications. installs counts different restart stamps among them.
	applied, installs int
	stamp             string
	// ranPeriodic is when each periodic instruction last ran.
	ranPeriodic map[string]time.Time
	// probesFrom is the time from which the probes of the applied plan pass.
	probesFrom time.Time
	// lastAttempt is the time of the last application, successful or not.
	lastAttempt time.Time
	// installing is the checksum of the plan in progress. installed is the time at which it completes.
	installing string
	installed  time.Time
}

// host is the machine as one pass sees it.
type host struct {
	// run runs a one-time instruction. The attempt counts from 1.
	run func(instruction plan.OneTimeInstruction, attempt int) (output []byte, err error)
	// periodic runs a periodic instruction.
	periodic func(instruction plan.PeriodicInstruction) (output []byte, err error)
	// healthy reports whether the services of the node answer.
	healthy func() bool
}

// timing sets the durations on a machine.
type timing struct {
	probe, retry time.Duration
}

// pass is one pass of an agent in checksum mode over its plan Secret (docs/wire/plan.md#one-pass-of-the-agent). It
// returns the Secret's new data, the agent's new memory, and the time until the next pass if no event comes. Zero means
// that the agent waits for an event. Like real agents, it does not answer a plan that it cannot read.
func pass(data map[string][]byte, mem memory, h host, t timing, now time.Time) (map[string][]byte, memory,
	time.Duration) {
	decoded, err := nodeplan.Decode(data[nodeplan.KeyPlan])
	if len(data[nodeplan.KeyPlan]) == 0 || err != nil {
		return data, mem, 0
	}
	out := maps.Clone(data)
	checksum := nodeplan.Checksum(data[nodeplan.KeyPlan])
	failures, _ := strconv.Atoi(string(data[nodeplan.KeyFailureCount]))
	var again time.Duration

	if string(data[nodeplan.KeyAppliedChecksum]) != checksum {
		if wait, due := attemptDue(data, checksum, failures, mem, t, now); !due {
			return data, mem, wait
		}
		output, failed := apply(decoded, h, failures+1)
		mem.lastAttempt = now
		if failed {
			recordFailure(out, checksum, failures+1, output, now)
			again = t.retry
		} else {
			recordSuccess(out, checksum, output, now)
			mem = remember(mem, decoded, now.Add(t.probe))
		}
	}
	mem = runPeriodic(out, decoded, mem, h, now)
	if healthy := recordProbes(out, decoded, mem, h, now); !healthy && again == 0 {
		again = max(mem.probesFrom.Sub(now), t.probe)
	}
	return out, mem, again
}

// attemptDue reports whether a plan that is not applied is due for an attempt now. A failed plan waits before each
// retry, up to its limit of failures.
func attemptDue(data map[string][]byte, checksum string, failures int, mem memory, t timing,
	now time.Time) (time.Duration, bool) {
	if failures == 0 || string(data[nodeplan.KeyFailedChecksum]) != checksum {
		return 0, true
	}
	limit, err := strconv.Atoi(string(data[nodeplan.KeyMaxFailures]))
	if err == nil && limit > 0 && failures >= limit {
		return 0, false
	}
	if wait := mem.lastAttempt.Add(t.retry).Sub(now); wait > 0 {
		return wait, false
	}
	return 0, true
}

// apply runs the instructions in order and stops at the first failure. It returns the output of instructions that save
// it.
func apply(p plan.NodePlan, h host, attempt int) (output map[string][]byte, failed bool) {
	output = map[string][]byte{}
	for _, instruction := range p.Instructions {
		text, err := h.run(instruction, attempt)
		if err != nil {
			text = append(text, err.Error()...)
		}
		if instruction.SaveOutput && instruction.Name != "" {
			output[instruction.Name] = text
		}
		if err != nil {
			if exit, ok := errors.AsType[*ExitError](err); ok {
				output[instruction.Name] = text
				failure := nodeplan.Failure{Instruction: instruction.Name, ExitCode: exit.Code}
				output[nodeplan.OutputFailure] = failure.Encode()
			}
			return output, true
		}
	}
	return output, false
}

func recordSuccess(out map[string][]byte, checksum string, output map[string][]byte, now time.Time) {
	successes, _ := strconv.Atoi(string(out[nodeplan.KeySuccessCount]))
	merged, err := nodeplan.DecodeOutput(nodeplan.KeyAppliedOutput, out[nodeplan.KeyAppliedOutput])
	if err != nil {
		merged = map[string][]byte{}
	}
	maps.Copy(merged, output)
	set(out, nodeplan.KeyAppliedOutput, func() ([]byte, error) { return nodeplan.EncodeOutput(merged) })
	out[nodeplan.KeyAppliedChecksum] = []byte(checksum)
	out[nodeplan.KeyFailedChecksum] = nil
	out[nodeplan.KeyFailedOutput] = nil
	out[nodeplan.KeyFailureCount] = []byte("0")
	out[nodeplan.KeySuccessCount] = []byte(strconv.Itoa(successes + 1))
	out[nodeplan.KeyLastApplyTime] = []byte(now.Format(time.UnixDate))
}

func recordFailure(out map[string][]byte, checksum string, failures int, output map[string][]byte, now time.Time) {
	set(out, nodeplan.KeyFailedOutput, func() ([]byte, error) { return nodeplan.EncodeOutput(output) })
	out[nodeplan.KeyFailedChecksum] = []byte(checksum)
	out[nodeplan.KeyFailureCount] = []byte(strconv.Itoa(failures))
	out[nodeplan.KeySuccessCount] = []byte("0")
	out[nodeplan.KeyLastApplyTime] = []byte(now.Format(time.UnixDate))
}

// remember counts an application. It also counts an installation when the plan has a new restart stamp.
func remember(mem memory, p plan.NodePlan, probesFrom time.Time) memory {
	mem.applied++
	mem.probesFrom = probesFrom
	for _, instruction := range p.Instructions {
		for _, env := range instruction.Env {
			stamp, found := strings.CutPrefix(env, "RESTART_STAMP=")
			if found && stamp != mem.stamp {
				mem.stamp = stamp
				mem.installs++
			}
		}
	}
	return mem
}

func runPeriodic(out map[string][]byte, p plan.NodePlan, mem memory, h host, now time.Time) memory {
	results, err := nodeplan.DecodePeriodicOutput(out[nodeplan.KeyAppliedPeriodicOutput])
	if err != nil {
		results = map[string]plan.PeriodicInstructionOutput{}
	}
	ran := maps.Clone(mem.ranPeriodic)
	if ran == nil {
		ran = map[string]time.Time{}
	}
	for _, instruction := range p.PeriodicInstructions {
		period := time.Duration(instruction.PeriodSeconds) * time.Second
		if period == 0 {
			period = plan.DefaultPeriodSeconds * time.Second
		}
		if last, known := ran[instruction.Name]; instruction.Name == "" || (known && now.Before(last.Add(period))) {
			continue
		}
		output, err := h.periodic(instruction)
		result := results[instruction.Name]
		result.Name = instruction.Name
		if err != nil {
			result.ExitCode, result.Failures, result.LastFailedRunTime = 1, result.Failures+1, now.Format(time.UnixDate)
		} else {
			result = plan.PeriodicInstructionOutput{Name: instruction.Name, Stdout: output,
				LastSuccessfulRunTime: now.Format(time.UnixDate)}
			ran[instruction.Name] = now
		}
		results[instruction.Name] = result
	}
	set(out, nodeplan.KeyAppliedPeriodicOutput, func() ([]byte, error) {
		return nodeplan.EncodePeriodicOutput(results)
	})
	mem.ranPeriodic = ran
	return mem
}

// recordProbes reports every probe. It returns true if all pass.
func recordProbes(out map[string][]byte, p plan.NodePlan, mem memory, h host, now time.Time) bool {
	applied := string(out[nodeplan.KeyAppliedChecksum]) == nodeplan.Checksum(out[nodeplan.KeyPlan])
	healthy := applied && !now.Before(mem.probesFrom) && h.healthy()
	statuses := map[string]plan.ProbeStatus{}
	for name, probe := range p.Probes {
		if healthy {
			statuses[name] = plan.ProbeStatus{Healthy: true,
				SuccessCount: max(probe.SuccessThreshold, plan.DefaultSuccessThreshold)}
		} else {
			statuses[name] = plan.ProbeStatus{FailureCount: 1}
		}
	}
	set(out, nodeplan.KeyProbeStatuses, func() ([]byte, error) { return nodeplan.EncodeProbeStatuses(statuses) })
	return healthy || len(p.Probes) == 0 && applied
}

// set stores an encoded value. The encoding of these values cannot fail. If it did, the key would keep its old value
// and a test of the key would fail.
func set(out map[string][]byte, key string, encode func() ([]byte, error)) {
	if value, err := encode(); err == nil && !bytes.Equal(out[key], value) {
		out[key] = value
	}
}
