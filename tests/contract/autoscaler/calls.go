package autoscaler

import (
	"encoding/json"
	"os"
)

const callsFile = "testdata/calls.json"

// calls are the API calls of an autoscaler, in order. In paths and bodies, {namespace}, {cluster}, {deployment} and
// {machineN} stand for names.
type calls struct {
	// Autoscaler is the version. Recorded is false if the calls were derived from the source of that version.
	Autoscaler string `json:"autoscaler"`
	Recorded   bool   `json:"recorded"`
	// Grow are the calls until the pool has three machines, and Shrink the further ones until it has one.
	Grow   []call `json:"grow"`
	Shrink []call `json:"shrink"`
}

type call struct {
	Method string `json:"method"`
	// Path is the path at the API server with the query. Versions of objects are left out.
	Path string          `json:"path"`
	Type string          `json:"type,omitempty"`
	Body json.RawMessage `json:"body,omitempty"`
	// Annotations are those that an update of a whole object adds.
	Annotations []string `json:"annotations,omitempty"`
	Code        int      `json:"code"`
}

func readCalls() (*calls, error) {
	raw, err := os.ReadFile(callsFile)
	if err != nil {
		return nil, err
	}
	all := &calls{}
	return all, json.Unmarshal(raw, all)
}

func (c *calls) write() error {
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(callsFile, append(raw, '\n'), 0o600)
}
