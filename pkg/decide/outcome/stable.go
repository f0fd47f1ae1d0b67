package outcome

import (
	"fmt"
	"regexp"
)

// unstable are patterns of text that differ from one run to the next, with their replacements.
var unstable = []struct {
	what    string
	pattern *regexp.Regexp
	instead string
}{
	{"an identifier of a request", regexp.MustCompile(`(?i)(\brequest[ _-]?id\W{0,3})[0-9a-z][0-9a-z-]{7,}`), "${1}…"},
	{"a UUID", regexp.MustCompile(`(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "…"},
	{"a resource version", regexp.MustCompile(`(?i)(resource ?version\W{0,3})\d+`), "${1}…"},
	{
		"a time",
		regexp.MustCompile(
			`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?|\b\d\d:\d\d:\d\d\b(\.\d+)?`), "…",
	},
	{
		"a duration",
		regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|us|ms)\b|\b(\d+h)?(\d+m)?\d+\.\d+s\b|\b\d+h\d+m(\d+s)?|\b\d+m\d+s\b`),
		"…",
	},
	{"a counter of attempts", regexp.MustCompile(`(?i)(\b(?:attempt|retry|try)\W{0,2})\d+`), "${1}…"},
	{"an address in memory", regexp.MustCompile(`\b0x[0-9a-f]{6,}\b`), "…"},
	{"a port of a connection", regexp.MustCompile(`(\d+\.\d+\.\d+\.\d+|\[[0-9A-Fa-f:.]+(?:%\w+)?\]):\d+->`), "${1}->"},
	{"a long number", regexp.MustCompile(`\b\d{9,}\b`), "…"},
}

// CheckStable returns an error that names the part of a message that seems to change from run to run. Tests call it
// with every message that reaches a condition.
func CheckStable(message string) error {
	for _, u := range unstable {
		if found := u.pattern.FindString(message); found != "" {
			return fmt.Errorf("message %q contains %s: %q", message, u.what, found)
		}
	}
	return nil
}

// Stable removes from a text what CheckStable finds. It is for errors of other programs, such as the API server.
// Drover's own messages are stable.
func Stable(text string) string {
	for _, u := range unstable {
		text = u.pattern.ReplaceAllString(text, u.instead)
	}
	return text
}
