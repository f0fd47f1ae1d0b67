package nodeplan

import "encoding/json"

// OutputFailure is the name under which Drover's agent reports in KeyFailedOutput which instruction failed, see
// Failure. The output alone does not show it, because it includes outputs of former plans. Agents of other vendors have
// no such report.
const OutputFailure = "agent-failure"

// Failure is the instruction at which a plan failed.
type Failure struct {
	// Instruction is the instruction's name, which may be empty.
	Instruction string `json:"instruction,omitempty"`
	// ExitCode is the exit status of its command; 0 when the command could not be started.
	ExitCode int `json:"exitCode,omitempty"`
}

// Encode returns the value for OutputFailure.
func (f Failure) Encode() []byte {
	data, err := json.Marshal(f)
	if err != nil {
		return nil // a string and a number can always be written
	}
	return data
}

// Cause returns the output that says why the plan failed: that of the failed command, or why the agent could not start
// one.
func (f Failure) Cause(output map[string][]byte) []byte {
	if f.ExitCode != 0 {
		return output[f.Instruction]
	}
	return output[OutputAgentError]
}

// FailureOf reads which instruction failed. ok is false without a report.
func FailureOf(output map[string][]byte) (f Failure, ok bool) {
	if json.Unmarshal(output[OutputFailure], &f) != nil {
		return Failure{}, false // a damaged report may have set a part
	}
	return f, true
}
