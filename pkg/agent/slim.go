package agent

import (
	"maps"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// slimness is how much a report omits when the server refuses a larger one. Each step also omits everything that the
// previous steps omit, and starts with the least important data. Checksums, counters, times and the reason of a failure
// always remain. Without them the plan would run again, or the failure would have no explanation.
type slimness int

const (
	// slimOutput omits the output of this run. Below it, nothing is omitted.
	slimOutput slimness = iota + 1
	// slimCopy omits the copy of earlier output in the report of a failure.
	slimCopy
	// slimFormer omits all output of earlier instructions.
	slimFormer
	// slimPeriodic omits the output of periodic instructions, which includes data that other machines need to join.
	slimPeriodic
)

// String names the omitted output in logs.
func (s slimness) String() string {
	switch s {
	case slimOutput:
		return "output of the run"
	case slimCopy:
		return "copy of earlier output"
	case slimFormer:
		return "earlier output"
	case slimPeriodic:
		return "periodic output"
	default:
		return "nothing"
	}
}

// carriedOver is the output of earlier instructions that a report keeps. A server may read it long after the plan has
// changed.
func carriedOver(data map[string][]byte, r result) map[string][]byte {
	if r.slim >= slimFormer || !r.succeeded && r.slim >= slimCopy {
		return map[string][]byte{}
	}
	previous := data[nodeplan.KeyAppliedOutput]
	if !r.succeeded && len(data[nodeplan.KeyFailedOutput]) > 0 {
		previous = data[nodeplan.KeyFailedOutput]
	}
	output, _ := nodeplan.DecodeOutput(nodeplan.KeyAppliedOutput, previous) // malformed output is replaced
	delete(output, nodeplan.OutputAgentError)
	delete(output, nodeplan.OutputFailure)
	for name := range r.output {
		delete(output, name) // if the new output is omitted, the old one would be mistaken for it
	}
	return output
}

// reportedOutput is the output of this run in the report.
func (r result) reportedOutput() map[string][]byte {
	if r.slim < slimOutput {
		return r.output
	}
	out := map[string][]byte{}
	if failure, ok := r.output[nodeplan.OutputFailure]; ok {
		out[nodeplan.OutputFailure] = failure
	}
	if why, ok := r.output[nodeplan.OutputAgentError]; ok {
		out[nodeplan.OutputAgentError] = why[:min(len(why), maxFailureTail)] // a registry may answer with a long page
	}
	return out
}

// reportedPeriodic is the output of periodic instructions in the report.
func (r result) reportedPeriodic() map[string]plan.PeriodicInstructionOutput {
	if r.slim < slimPeriodic {
		return r.periodic
	}
	out := maps.Clone(r.periodic)
	for name, entry := range out {
		entry.Stdout, entry.Stderr = nil, nil
		out[name] = entry
	}
	return out
}
