package nodeplan

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// Reasons of a MalformedError. They are fixed texts, so that an error message cannot contain the content of a Secret.
var (
	errNotJSON    = errors.New("must be JSON of the documented form")
	errNotGzip    = errors.New("must be gzip-compressed JSON of the documented form")
	errNotNumber  = errors.New("must be a decimal number")
	errNotOctal   = errors.New("permissions must be an octal number such as \"0600\"")
	errNotBase64  = errors.New("content must be standard base64")
	errNoPath     = errors.New("path must be absolute")
	errBadAction  = errors.New("action must be \"delete\" or absent")
	errEmptyProbe = errors.New("httpGet.url must be set")
)

// MalformedError means that a data key of a plan Secret is unreadable or too large. It never contains the value.
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
	where := "the plan secret"
	if e.Secret != "" {
		where = "plan secret " + e.Secret
	}
	if errors.Is(e.Reason, ErrTooLarge) {
		return fmt.Sprintf("key %q of %s is too large: %v", e.Key, where, e.Reason)
	}
	return fmt.Sprintf("malformed key %q of %s: %v", e.Key, where, e.Reason)
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
	if CountValues(data) > MaxPlanValues {
		return plan.NodePlan{}, malformed(KeyPlan, errPlanEntries)
	}
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
	return decodeGzip[[]byte](newBudget(), key, data)
}

// EncodePeriodicOutput returns the value of KeyAppliedPeriodicOutput: gzip of a JSON object by instruction name.
func EncodePeriodicOutput(output map[string]plan.PeriodicInstructionOutput) ([]byte, error) {
	return encodeGzip(output, len(output) == 0)
}

// DecodePeriodicOutput reads the value of KeyAppliedPeriodicOutput. An empty value is an empty, non-nil map. The error
// is a *MalformedError.
func DecodePeriodicOutput(data []byte) (map[string]plan.PeriodicInstructionOutput, error) {
	return decodeGzip[plan.PeriodicInstructionOutput](newBudget(), KeyAppliedPeriodicOutput, data)
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
	return decodeProbeStatuses(newBudget(), data)
}

func decodeProbeStatuses(b *budget, data []byte) (map[string]plan.ProbeStatus, error) {
	text, err := b.probeStatuses(data)
	if err != nil {
		return map[string]plan.ProbeStatus{}, err
	}
	return decodeMap[plan.ProbeStatus](KeyProbeStatuses, text, errNotJSON)
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

func decodeGzip[V any](b *budget, key string, data []byte) (map[string]V, error) {
	text, err := b.unpack(key, data)
	if err != nil {
		return map[string]V{}, err
	}
	return decodeMap[V](key, text, errNotGzip)
}

// decodeMap reads a JSON object. No text, and a JSON null, are an empty map.
func decodeMap[V any](key string, text []byte, reason error) (map[string]V, error) {
	out := map[string]V{}
	if len(text) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return map[string]V{}, malformed(key, reason)
	}
	if out == nil {
		out = map[string]V{}
	}
	return out, nil
}
