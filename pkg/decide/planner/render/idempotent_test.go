package render_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/distro"
	"github.com/drover-io/drover/pkg/decide/planner/render"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// nodeIn is a Linux server with a real provisioning directory that has the script of a rendered plan.
func nodeIn(t *testing.T) (render.Node, string) {
	t.Helper()
	dir := t.TempDir()
	in := basicInput(distro.K3s, "init", func(in *render.Input) {
		in.ControlPlane.Spec.DataDirectories = rkev1.DataDirectories{Provisioning: dir}
	})
	node := render.NodeOf(in)
	script := node.Dirs.IdempotentScript()
	if err := os.MkdirAll(filepath.Dir(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte(contentAt(t, mustPlan(t, in), script)), 0o600); err != nil {
		t.Fatal(err)
	}
	return node, dir
}

// run executes an instruction like an agent.
func run(t *testing.T, instruction plan.OneTimeInstruction, attempt string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), instruction.Command, instruction.Args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, instruction.Env...)
	if attempt != "" {
		cmd.Env = append(cmd.Env, "CATTLE_AGENT_ATTEMPT_NUMBER="+attempt)
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, out)
	}
	return cmd.ProcessState.ExitCode()
}

// counting is a command that appends a line to a file and exits with a code from another file.
func counting(dir string) render.Command {
	return render.Command{
		Name: "/bin/sh",
		Args: []string{"-c", `echo "$WHO $1" >>"$DIR/runs"; exit "$(cat "$DIR/code" 2>/dev/null || echo 0)"`, "sh",
			"an argument"},
		Env: []string{"WHO=test", "DIR=" + dir},
	}
}

func runs(t *testing.T, dir string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "runs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	count := strings.Count(string(content), "\n")
	if count != strings.Count(string(content), "test an argument\n") {
		t.Errorf("arguments or environment were lost: %q", content)
	}
	return count
}

// TestIdempotent_RunsUntilItSucceeded checks that a command runs again until it has succeeded.
// (docs/invariants.md#weaknesses, W4.)
func TestIdempotent_RunsUntilItSucceeded(t *testing.T) {
	t.Parallel()
	node, dir := nodeIn(t)
	command := node.Idempotent("etcd-restore/run", "generation 1", counting(dir))
	exitWith := func(code string) {
		if err := os.WriteFile(filepath.Join(dir, "code"), []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		what          string
		code, attempt string
		wantExit      int
		wantRuns      int
	}{
		{"the first attempt fails", "7", "1", 7, 1},
		{"the same attempt again runs again: a failure is never taken for a success", "7", "1", 7, 2},
		{"a later attempt succeeds", "0", "2", 0, 3},
		{"after that nothing runs", "7", "2", 0, 3},
		{"whatever the attempt", "7", "3", 0, 3},
		{"also without an attempt number", "7", "", 0, 3},
	} {
		exitWith(step.code)
		if got := run(t, command, step.attempt); got != step.wantExit {
			t.Errorf("%s: exit code %d, want %d", step.what, got, step.wantExit)
		}
		if got := runs(t, dir); got != step.wantRuns {
			t.Errorf("%s: ran %d times, want %d", step.what, got, step.wantRuns)
		}
	}
	exitWith("0")
	for what, other := range map[string]plan.OneTimeInstruction{
		"another request":    node.Idempotent("etcd-restore/run", "generation 2", counting(dir)),
		"another identifier": node.Idempotent("etcd-restore/other", "generation 1", counting(dir)),
	} {
		before := runs(t, dir)
		if code := run(t, other, "1"); code != 0 || runs(t, dir) != before+1 {
			t.Errorf("%s does not run: exit code %d", what, code)
		}
	}
}

func TestIdempotent_RunsAgainAfterItWasKilled(t *testing.T) {
	t.Parallel()
	node, dir := nodeIn(t)
	killed := counting(dir)
	killed.Args[1] = `echo "$WHO $1" >>"$DIR/runs"; [ -e "$DIR/second" ] || { : >"$DIR/second"; kill -9 $PPID $$; }`
	instruction := node.Idempotent("rotate", "1", killed)
	if code := run(t, instruction, "1"); code == 0 {
		t.Fatal("the killed command counts as a success")
	}
	if code := run(t, instruction, "1"); code != 0 || runs(t, dir) != 2 {
		t.Errorf("after a crash the command ran %d times in total, exit code %d", runs(t, dir), code)
	}
}

func TestIdempotent_ForgetLetsItRunAgain(t *testing.T) {
	t.Parallel()
	node, dir := nodeIn(t)
	instruction := node.Idempotent("Restore", "1", counting(dir))
	run(t, instruction, "1")
	run(t, node.Forget("Restore"), "1")
	run(t, instruction, "1")
	if got := runs(t, dir); got != 2 {
		t.Errorf("ran %d times, want 2", got)
	}
}

func TestIdempotent_Wire(t *testing.T) {
	t.Parallel()
	node := render.NodeOf(basicInput(distro.RKE2, "server"))
	const one = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
	const systemctl = "ff4b294dcb57179cad146355dcfdca5fb7f516963b73f25f09171ec6d2fb0954"
	got := node.Stop("Certificate-Rotation", "1")
	want := plan.OneTimeInstruction{CommonInstruction: plan.CommonInstruction{
		Name:    "idempotent-Certificate-Rotation-stop-" + one + "-" + systemctl,
		Command: "/bin/sh",
		Args: []string{
			"-x", "/var/lib/rancher/capr/idempotence/idempotent.sh", "certificate-rotation-stop", one, systemctl,
			"systemctl",
			"/var/lib/rancher/capr", "stop", "rke2-server",
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instruction (-want +got):\n%s", diff)
	}
}

func TestNode_Restart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		runtime distro.Runtime
		place   string
		want    []string
	}{
		"a server of RKE2": {runtime: distro.RKE2, place: "server",
			want: []string{
				"-c if [ $(systemctl is-failed rke2-server) = failed ]; then systemctl reset-failed rke2-server; fi",
				"restart rke2-server"}},
		"a worker of K3s": {runtime: distro.K3s, place: "worker",
			want: []string{
				"-c if [ $(systemctl is-failed k3s-agent) = failed ]; then systemctl reset-failed k3s-agent; fi",
				"restart k3s-agent"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, instruction := range render.NodeOf(basicInput(tc.runtime, tc.place)).Restart("x", "1") {
				got = append(got, strings.Join(instruction.Args[7:], " "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}
