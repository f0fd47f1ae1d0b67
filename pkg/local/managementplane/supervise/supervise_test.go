package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/drover-io/drover/pkg/local/managementplane/procid"
	"github.com/drover-io/drover/pkg/local/managementplane/supervise"
)

// role makes the test program act as one of the processes below instead of running tests.
const role = "SUPERVISE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "serve":
		serve()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		touch(os.Getenv("READY_FILE"))
		<-time.After(time.Hour)
	case "fail":
		fmt.Fprintln(os.Stderr, "cannot open the moon")
		os.Exit(3)
	case "parent":
		parent()
	}
}

// serve appends a line at its start and at its orderly stop, and reports that it is ready.
func serve() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	note("start " + os.Getenv("CHILD_NAME"))
	touch(os.Getenv("READY_FILE"))
	<-stop
	note("stop " + os.Getenv("CHILD_NAME"))
}

// parent runs two children until it is killed. One of them ignores SIGTERM.
func parent() {
	s, err := supervise.Open(context.Background(), optionsIn(os.Getenv("TEST_DIR")))
	if err == nil {
		err = s.Start(context.Background(), child(os.Getenv("TEST_DIR"), "left", "serve"))
	}
	if err == nil {
		err = s.Start(context.Background(), child(os.Getenv("TEST_DIR"), "deaf", "stubborn"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	touch(filepath.Join(os.Getenv("TEST_DIR"), "parent-ready"))
	<-time.After(time.Hour)
}

func note(line string) {
	file, err := os.OpenFile(os.Getenv("NOTES_FILE"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	fmt.Fprintln(file, line)
}

func touch(path string) {
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
}

func optionsIn(dir string) supervise.Options {
	log := logrus.New()
	log.SetLevel(logrus.ErrorLevel)
	return supervise.Options{
		RunDir: filepath.Join(dir, "run"), LogDir: filepath.Join(dir, "logs"),
		MinBackoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, Log: log,
	}
}

func child(dir, name, plays string) supervise.Child {
	ready := filepath.Join(dir, name+"-ready")
	return supervise.Child{
		Name: name, Path: os.Args[0],
		Env: []string{
			role + "=" + plays, "CHILD_NAME=" + name, "READY_FILE=" + ready,
			"NOTES_FILE=" + filepath.Join(dir, "notes"), "TEST_DIR=" + dir,
		},
		Ready: func(context.Context) error {
			if _, err := os.Stat(ready); err != nil {
				return errors.New("no ready file")
			}
			return nil
		},
		Grace: 5 * time.Second,
	}
}

func open(t *testing.T, dir string) *supervise.Supervisor {
	t.Helper()
	s, err := supervise.Open(t.Context(), optionsIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func notes(t *testing.T, dir string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "notes"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("not done in time: %s", what)
		case <-tick.C:
		}
	}
}

func TestChildrenStartInOrderAndStopInReverse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for _, name := range []string{"first", "second", "third"} {
		if err := s.Start(t.Context(), child(dir, name, "serve")); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	want := "start first\nstart second\nstart third\nstop third\nstop second\nstop first"
	if got := notes(t, dir); got != want {
		t.Errorf("order of processes\n%s\nwant\n%s", got, want)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "run", "*.json")); len(left) > 0 {
		t.Errorf("remaining records: %v", left)
	}
}

func TestKilledChildIsStartedAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Start(t.Context(), child(dir, "c", "serve")); err != nil {
		t.Fatal(err)
	}
	before := s.PID("c")
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process runs", func() bool { return s.PID("c") != 0 && s.PID("c") != before })
	eventually(t, "the second start is recorded", func() bool { return strings.Count(notes(t, dir), "start c") == 2 })
}

func TestChildThatCannotStart(t *testing.T) {
	tests := map[string]struct {
		change  func(*supervise.Child)
		timeout time.Duration
		want    []string
	}{
		"missing program": {
			change: func(c *supervise.Child) { c.Path = "/nowhere/program" },
			want:   []string{"start c: ", "run program", "/nowhere/program"},
		},
		"always ends at once": {
			change: func(c *supervise.Child) { c.Env[0] = role + "=fail" },
			want:   []string{"start c: ended: exit status 3", "c.log", "cannot open the moon"},
		},
		"never becomes ready": {
			change: func(c *supervise.Child) {
				c.Ready = func(context.Context) error { return errors.New("readiness check fails") }
			},
			timeout: 500 * time.Millisecond,
			want:    []string{"start c: not ready in time: readiness check fails"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			c := child(dir, "c", "serve")
			test.change(&c)
			ctx := t.Context()
			if test.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.timeout)
				defer cancel()
			}
			err := s.Start(ctx, c)
			if err == nil {
				t.Fatal("Start succeeded")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if s.PID("c") != 0 {
				t.Error("the child still runs")
			}
		})
	}
}

func TestErrorQuotesThisRunOnly(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "logs", "c.log"), []byte("yesterday's trouble\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := open(t, dir).Start(t.Context(), child(dir, "c", "fail"))
	if err == nil || strings.Contains(err.Error(), "yesterday") ||
		!strings.Contains(err.Error(), "cannot open the moon") {
		t.Errorf("error = %v, want only today's output", err)
	}
}

func TestStubbornChildIsKilledAfterItsGrace(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	c := child(dir, "c", "stubborn")
	c.Grace = 50 * time.Millisecond
	if err := s.Start(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	pid := s.PID("c")
	s.Close()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d still exists: %v", pid, err)
	}
}

func TestLiveRunIsNotInterrupted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Start(t.Context(), child(dir, "c", "serve")); err != nil {
		t.Fatal(err)
	}
	_, err := supervise.Open(t.Context(), optionsIn(dir))
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("second Open: error = %v, want the name of this process", err)
	}
	if err := syscall.Kill(s.PID("c"), 0); err != nil {
		t.Errorf("the child of the live run ended: %v", err)
	}
}

// After a kill of the parent, the next run finds the child by its record. If the parent was killed before it wrote the
// record, the next run finds the child by the mark in its environment.
func TestNextRunEndsChildrenOfKilledRun(t *testing.T) {
	tests := map[string]func(t *testing.T, runDir string){
		"by record": func(*testing.T, string) {},
		"by mark, record missing": func(t *testing.T, runDir string) {
			t.Helper()
			remove(t, filepath.Join(runDir, "left.json"))
		},
		"by mark, record is damaged": func(t *testing.T, runDir string) {
			t.Helper()
			damage(t, filepath.Join(runDir, "left.json"))
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = []string{role + "=parent", "TEST_DIR=" + dir}
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the parent's child is ready", func() bool {
				_, err := os.Stat(filepath.Join(dir, "parent-ready"))
				return err == nil
			})
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			var outlived []procid.ID
			for _, name := range []string{"left", "deaf"} {
				content, err := os.ReadFile(filepath.Join(dir, name+"-ready"))
				if err != nil {
					t.Fatal(err)
				}
				pid, err := strconv.Atoi(string(content))
				if err != nil {
					t.Fatal(err)
				}
				id, err := procid.Of(pid)
				if err != nil {
					t.Fatalf("child %s should have outlived its parent: %v", name, err)
				}
				outlived = append(outlived, id)
			}
			prepare(t, filepath.Join(dir, "run"))

			open(t, dir)
			for _, id := range outlived {
				if id.Alive() {
					t.Errorf("process %v still runs during the next run", id)
				}
			}
			if got := notes(t, dir); got != "start left\nstop left" {
				t.Errorf("the child's output is %q, want an orderly stop", got)
			}
		})
	}
}

// Another process may have a recorded pid. The start time distinguishes it.
func TestForeignProcessWithRecordedPIDIsSpared(t *testing.T) {
	dir := t.TempDir()
	bystander := exec.CommandContext(t.Context(), os.Args[0])
	bystander.Env = child(dir, "bystander", "serve").Env
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	content := fmt.Sprintf(`{"pid":%d,"startTime":1,"bootID":%q}`, bystander.Process.Pid,
		strings.TrimSpace(string(boot)))
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run", "old.json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another process with a recorded pid was ended: %v", err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func damage(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
}
