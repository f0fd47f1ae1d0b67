package installer

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// machine is a simulated machine for run.sh: the folders of the system are below root. The programs of the machine are
// a systemctl and an install script that record restarts, and fail if the file root/fail exists.
type machine struct {
	t             *testing.T
	root, program string
}

func newMachine(t *testing.T, program string) machine {
	t.Helper()
	m := machine{t: t, root: t.TempDir(), program: program}
	script := strings.NewReplacer("/usr/local", m.root+"/usr/local", "/etc/systemd", m.root+"/etc/systemd",
		"/var/lib/rancher", m.root+"/var/lib/rancher").Replace(string(runScript))
	m.write("installer/run.sh", script)
	m.write("installer/"+program, "")
	m.write("installer/install.sh", `[ "${INSTALL_K3S_FORCE_RESTART:-}" != true ] || systemctl restart k3s`+"\n")
	m.write("bin/systemctl", `#!/bin/sh
case "$*" in
  is-active*) exit 1 ;;
  *restart*) [ ! -e "$MACHINE/fail" ] && echo restart >>"$MACHINE/restarts" ;;
esac
`)
	return m
}

func (m machine) write(path, content string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, []byte(content), 0o755)); err != nil {
		m.t.Fatal(err)
	}
}

// install runs the script with a restart stamp. It reports whether the script succeeded, and the restarts so far.
func (m machine) install(stamp string) (ok bool, restarts int) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), "sh", filepath.Join(m.root, "installer/run.sh"))
	cmd.Env = []string{"PATH=" + m.root + "/bin:" + os.Getenv("PATH"), "MACHINE=" + m.root, "RESTART_STAMP=" + stamp}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	m.t.Logf("with stamp %q: %v %s", stamp, err, out)
	lines, err := os.ReadFile(filepath.Join(m.root, "restarts"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Fatal(err)
	}
	return cmd.ProcessState.Success(), strings.Count(string(lines), "\n")
}

func TestRunScript_RepeatsAnInterruptedRestart(t *testing.T) {
	for name, program := range map[string]string{"K3s": "k3s", "RKE2": "rke2.linux-amd64.tar.gz"} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, program)
			type result struct {
				OK       bool
				Restarts int
			}
			want := []result{{true, 1}, {true, 1}, {false, 1}, {true, 2}, {true, 2}, {true, 2}}
			var got []result
			for _, step := range []struct {
				stamp string
				fails bool
			}{{"a", false}, {"a", false}, {"b", true}, {"b", false}, {"b", false}, {"", false}} {
				if step.fails {
					m.write("fail", "")
				} else if err := os.RemoveAll(filepath.Join(m.root, "fail")); err != nil {
					t.Fatal(err)
				}
				ok, restarts := m.install(step.stamp)
				got = append(got, result{ok, restarts})
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}
