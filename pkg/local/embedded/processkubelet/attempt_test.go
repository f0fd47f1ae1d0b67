package processkubelet

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test program also runs as the shim, init and exec programs, which are this program under other names.
func TestMain(m *testing.M) {
	programs := map[string]func([]string) int{ShimProgram: ShimMain, InitProgram: InitMain, ExecProgram: ExecMain}
	if len(os.Args) > 1 {
		if program, ok := programs[os.Args[1]]; ok {
			os.Exit(program(os.Args[1:]))
		}
	}
	os.Exit(m.Run())
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containers need root")
	}
}

// scriptAttempt prepares an attempt that runs a shell script, with out mounted at /out.
func scriptAttempt(t *testing.T, script string, alter ...func(*containerSpec)) (a attempt, out string) {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	out = filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o777); err != nil {
		t.Fatal(err)
	}
	a = attempt{dir: filepath.Join(dir, "uid", "containers", "main", "0")}
	spec := containerSpec{
		Program: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Home: "/root",
		Mounts: []mountSpec{{Source: out, Target: "/out"},
			{Source: filepath.Join(a.dir, terminationFile), Target: "/dev/termination-log"}},
		LogFile: filepath.Join(a.dir, "output.log"), RootDir: filepath.Join(a.dir, rootDir),
	}
	for _, f := range alter {
		f(&spec)
	}
	if err := a.prepare(spec); err != nil {
		t.Fatal(err)
	}
	return a, out
}

func run(t *testing.T, a attempt) exitRecord {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	exit, err := a.run(ctx, func(startRecord) {})
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func waitForFile(t *testing.T, path string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s does not appear", path)
		case <-tick.C:
		}
	}
}

func TestContainerEnds(t *testing.T) {
	tests := map[string]struct {
		script   string
		alter    func(*containerSpec)
		wantCode int
		wantSig  int
		wantText string
	}{
		"well":        {script: "true"},
		"with a code": {script: "exit 3", wantCode: 3},
		"by a signal": {script: "kill -KILL $$", wantCode: 137, wantSig: 9},
		"missing program": {alter: func(s *containerSpec) { s.Program = "/no/such/program" }, wantCode: 128,
			wantText: "run /no/such/program"},
		"program not in PATH": {alter: func(s *containerSpec) { s.Program = "nosuchprogram" }, wantCode: 128,
			wantText: "nosuchprogram"},
		"mount below shared /usr": {alter: func(s *containerSpec) { s.Mounts[0].Target = "/usr/nosuchdir/x" },
			wantCode: 128, wantText: "read-only"},
		"mount that does not exist": {alter: func(s *containerSpec) { s.Mounts[0].Source = "/no/such/source" },
			wantCode: 128, wantText: "mount /out"},
		"unprivileged, own home": {script: `test "$(id -u):$(id -g):$(stat -c %u /home/x)" = 1234:1235:1234`,
			alter: func(s *containerSpec) { s.UID, s.GID, s.Home = 1234, 1235, "/home/x" }},
		"working directory exists": {script: `test "$(pwd)" = /a/b`, alter: func(s *containerSpec) { s.Dir = "/a/b" }},
		"read-only mount": {script: `touch /out/x && exit 9; exit 4`, alter: func(s *containerSpec) {
			s.Mounts[0].ReadOnly = true
		}, wantCode: 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _ := scriptAttempt(t, test.script, func(s *containerSpec) {
				if test.alter != nil {
					test.alter(s)
				}
			})
			exit := run(t, a)
			if exit.ExitCode != test.wantCode || exit.Signal != test.wantSig ||
				!strings.Contains(exit.Message, test.wantText) {
				t.Errorf("ended as %+v; want code %d, signal %d, message with %q", exit, test.wantCode, test.wantSig,
					test.wantText)
			}
			if exit.StartedAt == 0 || exit.FinishedAt < exit.StartedAt {
				t.Errorf("start and end are %d and %d", exit.StartedAt, exit.FinishedAt)
			}
		})
	}
}

// However many kubelets and shims compete for an attempt, its container runs once and all agree on the result.
func TestAttemptRunsExactlyOnce(t *testing.T) {
	a, out := scriptAttempt(t, "echo run >> /out/runs; exit 6")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			exit, err := a.run(t.Context(), func(startRecord) {})
			if err != nil || exit.ExitCode != 6 {
				t.Errorf("ended as %+v, %v; want code 6", exit, err)
			}
		})
	}
	group.Wait()
	if exit := run(t, a); exit.ExitCode != 6 {
		t.Errorf("later it ended as %+v", exit)
	}
	if runs := content(t, filepath.Join(out, "runs")); runs != "run\n" {
		t.Errorf("it ran as %q, want once", runs)
	}
}

// A kubelet that stops leaves its containers running, and the next kubelet resumes them.
func TestAttemptIsResumed(t *testing.T) {
	a, out := scriptAttempt(t, "touch /out/running; until test -e /out/go; do sleep 0.02; done; exit 8")
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := a.run(ctx, func(startRecord) {})
		first <- err
	}()
	waitForFile(t, filepath.Join(out, "running"))
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatalf("the first kubelet's error is %v", err)
	}
	started := make(chan startRecord, 1)
	second := make(chan exitRecord, 1)
	go func() {
		exit, _ := a.run(t.Context(), func(s startRecord) { started <- s })
		second <- exit
	}()
	if start := <-started; syscall.Kill(start.PID, 0) != nil {
		t.Errorf("process %d does not run", start.PID)
	}
	if err := os.WriteFile(filepath.Join(out, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if exit := <-second; exit.ExitCode != 8 {
		t.Errorf("ended as %+v, want code 8", exit)
	}
}

// A killed shim leaves no exit code. The container is reported as lost and ended, and does not run again.
func TestAttemptWhoseShimWasKilledIsLost(t *testing.T) {
	a, out := scriptAttempt(t, "echo run >> /out/runs; while :; do sleep 0.05; done")
	started := make(chan startRecord, 1)
	ended := make(chan exitRecord, 1)
	go func() {
		exit, err := a.run(t.Context(), func(s startRecord) { started <- s })
		if err != nil {
			t.Error(err)
		}
		ended <- exit
	}()
	container := <-started
	waitForFile(t, filepath.Join(out, "runs"))
	a.signal(syscall.SIGKILL)
	if exit := <-ended; exit.Reason != reasonLost || exit.ExitCode != 137 {
		t.Errorf("ended as %+v, want lost", exit)
	}
	deadline := time.After(10 * time.Second)
	for alive(container.PID) {
		select {
		case <-deadline:
			t.Fatal("the container still runs")
		case <-time.After(5 * time.Millisecond):
		}
	}
	if runs := content(t, filepath.Join(out, "runs")); runs != "run\n" {
		t.Errorf("it ran as %q, want once", runs)
	}
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestSignals(t *testing.T) {
	tests := map[string]struct {
		script   string
		signal   syscall.Signal
		wantCode int
	}{
		"it ends on SIGTERM": {
			script: `trap 'exit 12' TERM; touch /out/running; while :; do sleep 0.02; done`, signal: syscall.SIGTERM,
			wantCode: 12},
		"it is killed after the grace period": {
			script: `trap '' TERM; touch /out/running; while :; do sleep 0.02; done`, signal: killSignal,
			wantCode: 137},
		"it ignores SIGTERM": {
			script: `trap 'touch /out/asked' TERM; touch /out/running; until test -e /out/asked; do sleep 0.02; done; exit 2`, signal: syscall.SIGTERM, wantCode: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, out := scriptAttempt(t, test.script)
			ended := make(chan exitRecord, 1)
			go func() {
				exit, err := a.run(t.Context(), func(startRecord) {})
				if err != nil {
					t.Error(err)
				}
				ended <- exit
			}()
			waitForFile(t, filepath.Join(out, "running"))
			a.signal(test.signal)
			if exit := <-ended; exit.ExitCode != test.wantCode {
				t.Errorf("ended as %+v, want code %d", exit, test.wantCode)
			}
		})
	}
}

// Processes that a container leaves running end with it, even those that left its session.
func TestNoProcessOutlivesAContainer(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	a, out := scriptAttempt(t,
		`setsid sh -c 'echo $$ > /out/pid; while :; do sleep 0.05; done' & until test -s /out/pid; do sleep 0.02; done; exit 0`)
	if exit := run(t, a); exit.ExitCode != 0 {
		t.Fatalf("ended as %+v", exit)
	}
	pid := strings.TrimSpace(content(t, filepath.Join(out, "pid")))
	if _, err := os.Stat("/proc/" + pid); err == nil {
		t.Errorf("process %s still runs", pid)
	}
}

func TestTerminationMessage(t *testing.T) {
	tests := map[string]struct {
		message  string
		log      string
		exit     int
		fallBack bool
		want     string
	}{
		"as written": {message: "why", log: "noise", exit: 1, want: "why"},
		"only the end of a long message": {message: strings.Repeat("a", 5000) + "b", exit: 1,
			want: strings.Repeat("a", 4095) + "b"},
		"nothing":                               {log: "noise", exit: 1},
		"the log, if requested":                 {log: "noise", exit: 1, fallBack: true, want: "noise"},
		"not the log of a successful container": {log: "noise", fallBack: true},
		"a written message instead of the log":  {message: "why", log: "noise", exit: 1, fallBack: true, want: "why"},
		"the end of the log, if requested": {log: strings.Repeat("x", 3000) + "y", exit: 1, fallBack: true,
			want: strings.Repeat("x", 2047) + "y"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := attempt{dir: t.TempDir()}
			log := filepath.Join(a.dir, "output.log")
			for path, text := range map[string]string{filepath.Join(a.dir, terminationFile): test.message,
				log: test.log} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := a.terminationMessage(log, exitRecord{ExitCode: test.exit}, test.fallBack); got != test.want {
				t.Errorf("message is %q, want %q", got, test.want)
			}
		})
	}
}
