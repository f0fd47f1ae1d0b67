package scripts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var seconds = regexp.MustCompile(`\d+s\b`)

func TestSteps(t *testing.T) {
	for name, test := range map[string]struct {
		script, want string
		code         int
		leaves       string // a file
	}{
		"a step with work, a step without work, and a step that waits for the background": {
			script: `background "Image" echo built
				step "Programs" "about 3 minutes" echo compiled
				step "Packages" "" true
				step_background`,
			want: "[1/3] Programs, about 3 minutes\n[1/3] Programs: done in Ns\n[2/3] Packages\n[2/3] Packages: up " +
				"to date\n" +
				"[3/3] Image\n[3/3] Image: done in Ns\n",
		},
		"a step that fails ends the script and prints the end of its own output": {
			script: `step "Programs" "" sh -c 'for i in $(seq 30); do echo line $i; done; exit 7'; echo not reached`,
			want: "[1/3] Programs\n[1/3] Programs: failed after Ns. The end of bin/log/step-1.log:\n" +
				"    line 11\n    line 12\n    line 13\n    line 14\n    line 15\n    line 16\n    line 17\n    " +
				"line 18\n    line 19\n    line 20\n" +
				"    line 21\n    line 22\n    line 23\n    line 24\n    line 25\n    line 26\n    line 27\n    " +
				"line 28\n    line 29\n    line 30\n",
			code: 1,
		},
		"a failure in the background ends the script before the next step": {
			script: `background "Image" sh -c 'echo no space left; exit 1'
				step "Programs" "" sh -c 'until [ -e bin/log/background.end ]; do sleep 0.01; done'
				step "Packages" "" echo not reached`,
			want: "[1/3] Programs\n[1/3] Programs: up to date\n" +
				"[2/3] Image\n[2/3] Image: failed after Ns. The end of bin/log/background.log:\n    no space left\n",
			code: 1,
		},
		"a step that fails ends the background jobs": {
			script: `background "Image" sh -c 'trap "echo ended >ended; exit 1" TERM; echo >begun; while :; do sleep 0.01; done'
				step "Programs" "" sh -c 'until [ -e begun ]; do sleep 0.01; done; exit 1'`,
			want: "[1/3] Programs\n[1/3] Programs: failed after Ns. The end of bin/log/step-1.log:\n",
			code: 1, leaves: "ended",
		},
	} {
		t.Run(name, func(t *testing.T) {
			library, err := filepath.Abs("steps")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", "set -euo pipefail\n. "+library+"\nsteps_total=3\n"+
				test.script)
			cmd.Dir = t.TempDir()
			if err := os.MkdirAll(filepath.Join(cmd.Dir, "bin", "log"), 0o755); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			out, err := cmd.CombinedOutput()
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			for start := time.Now(); test.leaves != ""; {
				if _, err := os.Stat(filepath.Join(cmd.Dir, test.leaves)); err == nil {
					break
				}
				if time.Since(start) > 10*time.Second {
					t.Fatalf("file %s does not exist", test.leaves)
				}
			}
			if diff := cmp.Diff(test.want, seconds.ReplaceAllString(string(out), "Ns")); diff != "" ||
				cmd.ProcessState.ExitCode() != test.code {
				t.Errorf("exit code %d, want %d; output (-want +got):\n%s", cmd.ProcessState.ExitCode(), test.code,
					diff)
			}
		})
	}
}
