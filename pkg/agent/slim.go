package agent

import (
	"maps"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// slimness tells what a report leaves out, so that a server takes it that refused more for its size. Each step leaves out what
// those before it do, and the next thing that is missed least. Checksums, counters, times, and why a plan failed always stay:
// without them the plan would run again, or nobody would know why it failed.
type slimness int

const (
	// slimOutput leaves out the output of this run; less than that, nothing.
	slimOutput slimness = iota + 1
	// slimCopy leaves out the copy that the report of a failure makes of the output of former instructions.
	slimCopy
	// slimFormer leaves out all output of former instructions.
	slimFormer
	// slimPeriodic leaves out the output of periodic instructions, among it what other machines need to join.
	slimPeriodic
)

// String is what a log calls the output that a step leaves out.
func (s slimness) String() string {
	switch s {
	case slimOutput:
		return "output of the run"
	case slimCopy:
		return "copy of former output"
	case slimFormer:
		return "former output"
	case slimPeriodic:
		return "periodic output"
	default:
		return "nothing"
	}
}

// carriedOver is the output of former instructions that a report keeps: a server may ask for it long after the plan has changed.
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
		delete(output, name) // where the new one is left out, the old one would pass for it
	}
	return output
}

// reportedOutput is what a report keeps of the output of this run.
func (r result) reportedOutput() map[string][]byte {
	if r.slim < slimOutput {
		return r.output
	}
	out := map[string][]byte{}
	if failure, ok := r.output[nodeplan.OutputFailure]; ok {
		out[nodeplan.OutputFailure] = failure
	}
	if why, ok := r.output[nodeplan.OutputAgentError]; ok {
		out[nodeplan.OutputAgentError] = why[:min(len(why), maxFailureTail)] // a registry may answer with a page of any length
	}
	return out
}

// reportedPeriodic is what a report keeps of the output of periodic instructions.
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
