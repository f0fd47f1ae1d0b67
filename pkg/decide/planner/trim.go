package planner

import (
	"slices"
	"strings"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

const (
	// maxResult limits a result that decisions read, in bytes. Such results are a few lines of text. A longer one
	// counts as missing.
	maxResult = 64 << 10
	// maxFailure is how much of a failed command's output remains, in bytes. Messages show the last maxTail bytes, and
	// need more of it to recognize secrets.
	maxFailure = 16 << 10
	// maxTime limits a time in a report, in bytes.
	maxTime = 64
)

// periodicResults are the periodic instructions whose output decisions read.
var periodicResults = []string{render.CaptureAddress, render.EtcdName, render.SecretsEncryptStatus}

// Trim removes the reports that neither decisions nor messages read. Decoded plan Secrets stay in memory, and nodes
// choose their reports. Trim does not change maps in place.
func Trim(state *nodeplan.State) {
	state.Output = chosen(state.Output, func(name string, text []byte) ([]byte, bool) {
		return text, name == render.SecretsEncryptStatus && len(text) <= maxResult
	})
	state.PeriodicOutput = chosen(state.PeriodicOutput, trimPeriodic)
	state.ProbeStatuses = chosen(state.ProbeStatuses, func(name string, s plan.ProbeStatus) (plan.ProbeStatus, bool) {
		_, planned := state.Plan.Probes[name]
		return s, planned
	})
	failure, _ := nodeplan.FailureOf(state.FailedOutput)
	read := []string{nodeplan.OutputAgentError, render.EtcdProofInstruction, failure.Instruction}
	state.FailedOutput = chosen(state.FailedOutput, func(name string, text []byte) ([]byte, bool) {
		if name == nodeplan.OutputFailure {
			return text, len(text) <= maxFailure
		}
		if len(text) > maxFailure {
			text = slices.Clone(text[len(text)-maxFailure:])
		}
		return text, slices.Contains(read, name)
	})
}

func trimPeriodic(name string, out plan.PeriodicInstructionOutput) (plan.PeriodicInstructionOutput, bool) {
	out.Name, out.Stderr, out.LastFailedRunTime = "", nil, ""
	if len(out.LastSuccessfulRunTime) > maxTime {
		out.LastSuccessfulRunTime = strings.Clone(out.LastSuccessfulRunTime[:maxTime])
	}
	return out, slices.Contains(periodicResults, name) && len(out.Stdout) <= maxResult
}

// chosen returns the chosen entries in a new map, because a map keeps the memory of deleted entries.
func chosen[V any](all map[string]V, choose func(string, V) (V, bool)) map[string]V {
	out := map[string]V{}
	for name, value := range all {
		if kept, ok := choose(name, value); ok {
			out[name] = kept
		}
	}
	return out
}
