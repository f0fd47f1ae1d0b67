package nodeplan

import "encoding/json"

// OutputFailure is the name under which our agent reports in KeyFailedOutput which instruction failed, see Failure. Outputs of former
// plans are carried over, so that output alone does not tell. Agents of other makes leave no such report.
const OutputFailure = "agent-failure"

// Failure is the instruction at which a plan failed.
type Failure struct {
	// Instruction is its name, which may be empty.
	Instruction string `json:"instruction,omitempty"`
	// ExitCode is how its command ended; 0 when it could not be started.
	ExitCode int `json:"exitCode,omitempty"`
}

// Encode returns the value under OutputFailure.
func (f Failure) Encode() []byte {
	data, err := json.Marshal(f)
	if err != nil {
		return nil // a string and a number can always be written
	}
	return data
}

// FailureOf reads which instruction failed; ok is false when nothing is reported.
func FailureOf(output map[string][]byte) (f Failure, ok bool) {
	raw := output[OutputFailure]
	return f, len(raw) > 0 && json.Unmarshal(raw, &f) == nil
}
