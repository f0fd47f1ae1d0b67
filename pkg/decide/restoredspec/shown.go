package restoredspec

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/drover-io/drover/pkg/decide/redact"
)

// maxShown is the longest text of a value, in bytes.
const maxShown = 200

// absent is the text of a field without a value.
const absent = "(absent)"

// Shown returns the two values of a change for users: one line each, short, and without secrets.
func (c Change) Shown() (before, after string) {
	key := c.Field[strings.LastIndexAny(c.Field, ".[")+1:]
	return shown(strings.TrimSuffix(key, "]"), c.Old), shown(strings.TrimSuffix(key, "]"), c.New)
}

func shown(key string, value any) string {
	text, isText := value.(string)
	text = strings.TrimSpace(text)
	switch {
	case value == nil:
		return absent
	case redact.Named(key):
		return redact.Mask
	case isText && strings.ContainsAny(text, "\r\n"):
		return fmt.Sprintf("(a text of %d lines)", strings.Count(text, "\n")+1)
	case isText:
		return clipped(redact.Text(text))
	}
	encoded, err := json.Marshal(masked(value))
	if err != nil {
		return redact.Mask
	}
	return clipped(string(encoded))
}

// masked returns a value without secrets.
func masked(value any) any {
	switch found := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range found {
			if out[key] = masked(inner); redact.Named(key) {
				out[key] = redact.Mask
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(found))
		for _, inner := range found {
			out = append(out, masked(inner))
		}
		return out
	case string:
		return redact.Text(found)
	}
	return value
}

func clipped(text string) string {
	if len(text) <= maxShown {
		return text
	}
	end := maxShown
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
