package lab

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/local/managementplane/procid"
)

// The lab ends processes of a run that was killed after it started a machine and before it recorded the process.
func TestStrays_EndWithoutARecord(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can create control groups")
	}
	tests := map[string]struct {
		// start starts the processes that the killed lab left of machine "one".
		start func(t *testing.T, l *Lab, groups []string) procid.ID
	}{
		"the first process, before it enters its control groups": {func(t *testing.T, l *Lab, _ []string) procid.ID {
			t.Helper()
			return play(t, "echo up; sleep 1000 & wait", l.mark("one"))
		}},
		"a process of the machine, without a mark": {func(t *testing.T, _ *Lab, groups []string) procid.ID {
			t.Helper()
			return play(t, enter+"echo up; exec sleep 1000", "GROUPS_OF_MACHINE="+strings.Join(groups, " "))
		}},
		"a process in a control group of the machine": {func(t *testing.T, _ *Lab, groups []string) procid.ID {
			t.Helper()
			inner := make([]string, 0, len(groups))
			for _, group := range groups {
				inner = append(inner, filepath.Join(group, "inner"))
				must(t, makeCgroup(filepath.Join(group, "inner")))
			}
			return play(t, enter+"echo up; exec sleep 1000", "GROUPS_OF_MACHINE="+strings.Join(inner, " "))
		}},
	}
	for name, test := range tests {
		for who, end := range map[string]func(*Lab, Config) error{
			"the next boot": func(l *Lab, _ Config) error { return l.endStrays(context.Background(), "one") },
			"Destroy":       func(_ *Lab, config Config) error { return Destroy(context.Background(), config) },
		} {
			t.Run(name+" is ended by "+who, func(t *testing.T) {
				config := Config{Name: "straytest", Dir: filepath.Join(t.TempDir(), "lab")}
				must(t, os.MkdirAll(config.Dir, 0o700))
				killed := newLab(config)
				t.Cleanup(func() { must(t, Destroy(context.Background(), config)) })
				groups, err := killed.makeCgroups("one")
				must(t, err)
				left := test.start(t, killed, groups)
				foreign := play(t, "echo up; exec sleep 1000", newLab(Config{Name: "straytest2"}).mark("one"))

				must(t, end(newLab(config), config))
				if left.Alive() {
					t.Errorf("process %d still runs", left.PID)
				}
				if !foreign.Alive() {
					t.Error("a machine of another lab was ended")
				}
				for _, group := range groups {
					if _, err := os.Stat(group); err == nil {
						t.Errorf("control group %s still exists", group)
					}
				}
			})
		}
	}
}

// enter is shell code that enters the control groups.
const enter = `for group in $GROUPS_OF_MACHINE; do echo $$ >"$group/cgroup.procs" || exit 1; done; `

// play starts a shell script instead of systemd-nspawn and returns once it has printed a line.
func play(t *testing.T, script string, environment ...string) procid.ID {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environment...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if !bufio.NewScanner(out).Scan() {
		t.Fatalf("%q did not start", script)
	}
	id, err := procid.Of(cmd.Process.Pid)
	must(t, err)
	return id
}
