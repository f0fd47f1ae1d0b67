package nodeplan

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Limits of what one plan Secret may contain. A node writes its reports, so they are untrusted: gzip and JSON unpack
// to many times their size. (docs/security.md#limits.)
const (
	// MaxReportSize limits the reports of one plan Secret after decompression, all keys together, in bytes.
	MaxReportSize = 1 << 20
	// MaxReportValues limits the JSON values in these reports. A small value takes a hundred times its text in memory.
	MaxReportValues = 8192
	// MaxReportKeySize limits the stored value of one key with outputs, in bytes.
	MaxReportKeySize = 512 << 10
	// MaxProbeStatusesSize limits the value of KeyProbeStatuses, in bytes.
	MaxProbeStatusesSize = 64 << 10
	// MaxHostKeysSize limits the value of KeySSHHostKeys, in bytes.
	MaxHostKeysSize = 8 << 10
	// MaxPlanValues limits the JSON values of a plan.
	MaxPlanValues = 32768
	// maxTextSize limits the keys that hold a number, a checksum, a time or a phase, in bytes.
	maxTextSize = 256
)

// Reasons of a MalformedError about size. ErrTooLarge matches all of them.
var (
	// ErrTooLarge means that a report is larger than Drover accepts.
	ErrTooLarge    = errors.New("too large")
	errReportSize  = tooLargeError("more than 1 MiB in all reports, decompressed")
	errValues      = tooLargeError(fmt.Sprintf("more than %d JSON values in all reports", MaxReportValues))
	errKeySize     = tooLargeError("more than 512 KiB")
	errProbesSize  = tooLargeError("more than 64 KiB")
	errHostKeys    = tooLargeError("more than 8 KiB")
	errTextSize    = tooLargeError(fmt.Sprintf("more than %d bytes", maxTextSize))
	errPlanEntries = tooLargeError(fmt.Sprintf("more than %d JSON values", MaxPlanValues))
)

type tooLargeError string

func (e tooLargeError) Error() string { return string(e) }

// Is reports whether the target is ErrTooLarge.
func (e tooLargeError) Is(target error) bool { return target == ErrTooLarge }

// budget is what the reports of one Secret may still use.
type budget struct{ bytes, values int }

func newBudget() *budget { return &budget{bytes: MaxReportSize, values: MaxReportValues} }

// spend takes a text from the budget before it is decoded.
func (b *budget) spend(key string, text []byte) error {
	if len(text) > b.bytes {
		return malformed(key, errReportSize)
	}
	values := CountValues(text)
	if values > b.values {
		return malformed(key, errValues)
	}
	b.bytes -= len(text)
	b.values -= values
	return nil
}

// unpack returns the JSON text of a key with outputs. It never holds more than the budget. An absent value has no text.
func (b *budget) unpack(key string, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, malformed(key, errNotGzip)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(b.bytes)+1))
	if err != nil {
		b.bytes -= min(b.bytes, len(text)) // so that the order of the keys does not matter
		return nil, malformed(key, errNotGzip)
	}
	return text, b.spend(key, text)
}

// probeStatuses returns the JSON text of KeyProbeStatuses.
func (b *budget) probeStatuses(data []byte) ([]byte, error) {
	if len(data) > MaxProbeStatusesSize {
		return nil, malformed(KeyProbeStatuses, errProbesSize)
	}
	return data, b.spend(KeyProbeStatuses, data)
}

// CountValues returns an upper bound on the JSON values in a text: separators and openings outside strings.
func CountValues(text []byte) int {
	count := 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ',', '{', '[':
			count++
		case '"':
			i += endOfString(text[i+1:]) + 1
		}
	}
	return count
}

// endOfString returns the index of the quote that ends a JSON string, or the length of the text without one.
func endOfString(text []byte) int {
	quote := bytes.IndexByte(text, '"')
	if quote >= 0 && bytes.IndexByte(text[:quote], '\\') < 0 {
		return quote // long outputs are in base64, without escapes
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return len(text)
}

// CheckReport checks that Drover accepts the sizes of the reports in the data of a plan Secret. The error matches
// ErrTooLarge. CheckReport ignores what is malformed in another way, which Parse reports. It skips the keys of others.
func CheckReport(data map[string][]byte) error {
	b := newBudget()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !AgentKey(key) {
			continue
		}
		if err := b.check(key, data[key]); errors.Is(err, ErrTooLarge) {
			return err
		}
	}
	return nil
}

func (b *budget) check(key string, value []byte) error {
	switch key {
	case KeyAppliedOutput, KeyFailedOutput, KeyAppliedPeriodicOutput:
		if len(value) > MaxReportKeySize {
			return malformed(key, errKeySize)
		}
		_, err := b.unpack(key, value)
		return err
	case KeyProbeStatuses:
		_, err := b.probeStatuses(value)
		return err
	case KeySSHHostKeys:
		if len(value) > MaxHostKeysSize {
			return malformed(key, errHostKeys)
		}
		return nil
	default:
		if len(value) > maxTextSize {
			return malformed(key, errTextSize)
		}
		return nil
	}
}
