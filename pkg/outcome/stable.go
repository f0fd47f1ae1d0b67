package outcome

import (
	"fmt"
	"regexp"
)

// unstable are shapes of text that differ from one run to the next.
var unstable = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"a resource version", regexp.MustCompile(`(?i)resource ?version\W{0,3}\d+`)},
	{"a time", regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d\b`)},
	{"a duration", regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|us|ms)\b|\b\d+\.\d+s\b|\b\d+h\d+m|\b\d+m\d+(\.\d+)?s\b`)},
	{"a counter of attempts", regexp.MustCompile(`(?i)\b(attempt|retry|try)\W{0,2}\d+`)},
	{"an address in memory", regexp.MustCompile(`\b0x[0-9a-f]{6,}\b`)},
	{"a port of a connection", regexp.MustCompile(`\d+\.\d+\.\d+\.\d+:\d+->`)},
	{"a long number", regexp.MustCompile(`\b\d{9,}\b`)},
}

// CheckStable returns an error that says which part of a message looks as if it changed from run to run. Tests call it
// with every message that reaches a condition.
func CheckStable(message string) error {
	for _, u := range unstable {
		if found := u.pattern.FindString(message); found != "" {
			return fmt.Errorf("message %q holds %s: %q", message, u.what, found)
		}
	}
	return nil
}
