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

// FailureOf reads which instruction failed. ok is false without a report.
func FailureOf(output map[string][]byte) (f Failure, ok bool) {
	raw := output[OutputFailure]
	return f, len(raw) > 0 && json.Unmarshal(raw, &f) == nil
}
