package credential

import (
	"regexp"

	"github.com/drover-io/drover/pkg/decide/redact"
)

// Hide returns a sentence of the API server or of a webhook without the values. It returns other instead if the
// sentence contains a value that is too short to be masked.
func Hide(text string, values map[string]string, other string) string {
	known := &redact.Secrets{}
	for _, value := range values {
		known.AddText(value)
	}
	text = known.Mask(text)
	for _, value := range values {
		if value != "" && regexp.MustCompile(`(^|\W)`+regexp.QuoteMeta(value)+`($|\W)`).MatchString(text) {
			return other
		}
	}
	return text
}
