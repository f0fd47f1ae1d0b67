package agent

import (
	"maps"
	"slices"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
)

// slimness is how much a report omits when the server refuses a larger one, or would refuse it. Each step also omits
// everything that the previous steps omit, and starts with the least important data. Checksums, counters, times and the
// reason of a failure always remain. Without them the plan would run again, or the failure would have no explanation.
type slimness int

const (
	// slimLong omits the beginning of long outputs. Below it, nothing is omitted.
	slimLong slimness = iota + 1
	// slimOutput omits the output of this run.
	slimOutput
	// slimCopy omits the copy of earlier output in the report of a failure.
	slimCopy
	// slimFormer omits all output of earlier instructions.
	slimFormer
	// slimPeriodic omits the output of periodic instructions, which includes data that other machines need to join.
	slimPeriodic
)

// maxLongOutput is how many bytes of an output remain in slimLong. Results that a server reads are shorter.
const maxLongOutput = 32 << 10

// omitted replaces the omitted beginning of an output.
const omitted = "[the agent left out the beginning: the report of the plan would be too large]\n"

// String names the omitted output in logs.
func (s slimness) String() string {
	switch s {
	case slimLong:
		return "beginning of long output"
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

// slimmer returns the next step. It skips slimLong if no output is long.
func (r result) slimmer(data map[string][]byte) slimness {
	if r.slim > 0 {
		return r.slim + 1
	}
	for _, outputs := range []map[string][]byte{r.output, carriedOver(data, r)} {
		if slices.ContainsFunc(slices.Collect(maps.Values(outputs)), isLong) {
			return slimLong
		}
	}
	for _, entry := range r.periodic {
		if isLong(entry.Stdout) || isLong(entry.Stderr) {
			return slimLong
		}
	}
	return slimOutput
}

func isLong(output []byte) bool { return len(output) > maxLongOutput }

// shorten omits the beginning of a long output.
func shorten(output []byte) []byte {
	if !isLong(output) {
		return output
	}
	return append([]byte(omitted), output[len(output)-maxLongOutput+len(omitted):]...)
}

func shortenAll(outputs map[string][]byte) map[string][]byte {
	out := make(map[string][]byte, len(outputs))
	for name, output := range outputs {
		out[name] = shorten(output)
	}
	return out
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
	if r.slim >= slimLong {
		return shortenAll(output)
	}
	return output
}

// slimStored shrinks the output of earlier runs in a report without a run. A former agent, or a former server, had
// other limits.
func slimStored(out, data map[string][]byte, r result) error {
	if r.slim < slimFormer {
		return nil
	}
	if len(data[nodeplan.KeyAppliedOutput]) > 0 {
		out[nodeplan.KeyAppliedOutput] = []byte{}
	}
	if len(data[nodeplan.KeyFailedOutput]) == 0 {
		return nil
	}
	// A malformed output is replaced.
	failed, _ := nodeplan.DecodeOutput(nodeplan.KeyFailedOutput, data[nodeplan.KeyFailedOutput])
	encoded, err := nodeplan.EncodeOutput(result{output: failed, slim: r.slim}.reportedOutput())
	out[nodeplan.KeyFailedOutput] = encoded
	return err
}

// reportedOutput is the output of this run in the report.
func (r result) reportedOutput() map[string][]byte {
	switch {
	case r.slim < slimLong:
		return r.output
	case r.slim < slimOutput:
		return shortenAll(r.output)
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
	if r.slim < slimLong {
		return r.periodic
	}
	out := maps.Clone(r.periodic)
	for name, entry := range out {
		entry.Stdout, entry.Stderr = shorten(entry.Stdout), shorten(entry.Stderr)
		if r.slim >= slimPeriodic {
			entry.Stdout, entry.Stderr = nil, nil
		}
		out[name] = entry
	}
	return out
}

// omission is what the reports of one plan omit.
type omission struct {
	plan string
	slim slimness
}

// slim makes the report of a result smaller. It logs only what it has not logged yet about the plan.
func (r *remoteSource) slim(res *result, why error) {
	res.slim = res.slimmer(r.current.Data)
	checksum := nodeplan.Checksum(r.current.Data[nodeplan.KeyPlan])
	if r.logged.plan == checksum && res.slim <= r.logged.slim {
		return
	}
	r.logged = omission{checksum, res.slim}
	r.log.WithError(why).WithField("without", res.slim).Warn("The report of the plan is too large; sending a smaller " +
		"one")
}

// settle records what an accepted report omits. A report without new output does not count: it fits because the stored
// output is already smaller.
func (r *remoteSource) settle(checksum string, res result) {
	if res.ran {
		r.logged = omission{checksum, res.slim}
	}
}
