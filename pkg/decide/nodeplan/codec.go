package nodeplan

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// MaxOutputSize limits an output map after decompression, in bytes. A Secret has at most 1 MiB, which could unpack to a
// gigabyte.
const MaxOutputSize = 16 << 20

// Reasons of a MalformedError. They are fixed texts, so that an error message cannot contain the content of a Secret.
var (
	errNotJSON    = errors.New("must be JSON of the documented form")
	errNotGzip    = errors.New("must be gzip-compressed JSON of the documented form")
	errNotNumber  = errors.New("must be a decimal number")
	errTooLarge   = errors.New("is larger than 16 MiB when decompressed")
	errNotOctal   = errors.New("permissions must be an octal number such as \"0600\"")
	errNotBase64  = errors.New("content must be standard base64")
	errNoPath     = errors.New("path must be absolute")
	errBadAction  = errors.New("action must be \"delete\" or absent")
	errEmptyProbe = errors.New("httpGet.url must be set")
)

// MalformedError means that a data key of a plan Secret is unreadable. It never contains the value.
type MalformedError struct {
	// Secret is namespace/name, or empty where the reader does not know it.
	Secret string
	// Key is the data key.
	Key string
	// Reason says what would be right.
	Reason error
}

// Error names the Secret and the key, and says what would be right.
func (e *MalformedError) Error() string {
	if e.Secret == "" {
		return fmt.Sprintf("malformed key %q of the plan secret: %v", e.Key, e.Reason)
	}
	return fmt.Sprintf("malformed key %q of plan secret %s: %v", e.Key, e.Secret, e.Reason)
}

// Unwrap returns the reason.
func (e *MalformedError) Unwrap() error { return e.Reason }

func malformed(key string, reason error) error { return &MalformedError{Key: key, Reason: reason} }

// Encode returns the stored bytes of a plan: compact JSON with HTML escaping. The same plan gives the same bytes,
// whether its slices and maps are nil or empty.
func Encode(p plan.NodePlan) ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return data, nil
}

// Decode reads the bytes of a plan. Like agents, it ignores unknown keys. The error is a *MalformedError.
func Decode(data []byte) (plan.NodePlan, error) {
	var p plan.NodePlan
	if err := json.Unmarshal(data, &p); err != nil {
		return plan.NodePlan{}, malformed(KeyPlan, errNotJSON)
	}
	return p, nil
}

// Checksum identifies a plan: the lower-case hexadecimal SHA-256 of its exact bytes, never of a re-encoding.
func Checksum(planBytes []byte) string {
	sum := sha256.Sum256(planBytes)
	return hex.EncodeToString(sum[:])
}

// EncodeOutput returns the value of KeyAppliedOutput or KeyFailedOutput. It is gzip of a JSON object that maps the name
// of an instruction to its base64 output, or to null without output.
func EncodeOutput(output map[string][]byte) ([]byte, error) {
	return encodeGzip(output, len(output) == 0)
}

// DecodeOutput reads the value of KeyAppliedOutput or KeyFailedOutput. An empty value is an empty, non-nil map. The map
// may contain names of former instructions. The error is a *MalformedError for the given key.
func DecodeOutput(key string, data []byte) (map[string][]byte, error) {
	out := map[string][]byte{}
	if err := decodeGzip(key, data, &out); err != nil {
		return map[string][]byte{}, err
	}
	return nonNil(out), nil
}

// EncodePeriodicOutput returns the value of KeyAppliedPeriodicOutput: gzip of a JSON object by instruction name.
func EncodePeriodicOutput(output map[string]plan.PeriodicInstructionOutput) ([]byte, error) {
	return encodeGzip(output, len(output) == 0)
}

// DecodePeriodicOutput reads the value of KeyAppliedPeriodicOutput. An empty value is an empty, non-nil map. The error
// is a *MalformedError.
func DecodePeriodicOutput(data []byte) (map[string]plan.PeriodicInstructionOutput, error) {
	out := map[string]plan.PeriodicInstructionOutput{}
	if err := decodeGzip(KeyAppliedPeriodicOutput, data, &out); err != nil {
		return map[string]plan.PeriodicInstructionOutput{}, err
	}
	return nonNil(out), nil
}

// EncodeProbeStatuses returns the value of KeyProbeStatuses: a JSON object by probe name, {} without probes.
func EncodeProbeStatuses(statuses map[string]plan.ProbeStatus) ([]byte, error) {
	if statuses == nil {
		statuses = map[string]plan.ProbeStatus{}
	}
	data, err := json.Marshal(statuses)
	if err != nil {
		return nil, fmt.Errorf("encode probe statuses: %w", err)
	}
	return data, nil
}

// DecodeProbeStatuses reads the value of KeyProbeStatuses. An empty value is an empty, non-nil map. The error is a
// *MalformedError.
func DecodeProbeStatuses(data []byte) (map[string]plan.ProbeStatus, error) {
	out := map[string]plan.ProbeStatus{}
	if len(data) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return map[string]plan.ProbeStatus{}, malformed(KeyProbeStatuses, errNotJSON)
	}
	return nonNil(out), nil
}

func decodeNumber(key string, data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		return 0, malformed(key, errNotNumber)
	}
	return n, nil
}

// nonNil replaces the nil map that a JSON null leaves.
func nonNil[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

func encodeGzip(value any, empty bool) ([]byte, error) {
	text := []byte("{}")
	if !empty {
		var err error
		if text, err = json.Marshal(value); err != nil {
			return nil, fmt.Errorf("encode output: %w", err)
		}
	}
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf) // without name and time in the header, the same map gives the same bytes
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("compress output: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress output: %w", err)
	}
	return buf.Bytes(), nil
}

func decodeGzip(key string, data []byte, into any) error {
	if len(data) == 0 {
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return malformed(key, errNotGzip)
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxOutputSize+1))
	if err != nil {
		return malformed(key, errNotGzip)
	}
	if len(text) > MaxOutputSize {
		return malformed(key, errTooLarge)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return malformed(key, errNotGzip)
	}
	return nil
}
