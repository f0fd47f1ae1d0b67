package cmd

import (
	"encoding/json"
	"strings"
	"testing"
)

// The error that ends the program is in its log, in the log's format, so that readers need only one format.
func TestServer_LogsItsErrorInTheLogFormat(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an invalid flag": {[]string{"--tracing-endpoint=otel:4317",
			"--server-url=https://d.example.com"}, `--tracing-endpoint: \"otel:4317\" is not the address`},
		"an unreachable management cluster": {[]string{"--kubeconfig=/does/not/exist",
			"--server-url=https://d.example.com"}, "/does/not/exist"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := run(t, append([]string{"server", "--log-format=json", "--data-dir=" + t.TempDir()},
				tc.args...)...)
			if code != 1 || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d: %s", code, out)
			}
			for line := range strings.Lines(out) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %q", line)
				}
			}
			if code, out := run(t, append([]string{"server", "--log-format=text", "--data-dir=" + t.TempDir()},
				tc.args...)...); code != 1 || !strings.HasPrefix(out, "Error: ") {
				t.Errorf("exit code %d: %s", code, out)
			}
		})
	}
}
