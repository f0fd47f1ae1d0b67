package procid

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestID_DistinguishesProcessesWithTheSamePid(t *testing.T) {
	own, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !own.Alive() {
		t.Error("this process must be alive")
	}
	other := ID{PID: own.PID, Start: own.Start + 1}
	if other.Alive() {
		t.Error("a process with another start time counts as this process")
	}
	if err := other.Signal(syscall.SIGKILL); err != nil {
		t.Errorf("signal to a process that ended: %v, want none sent and no error", err)
	}
}

func TestID_TextRoundTrip(t *testing.T) {
	want := ID{PID: 42, Start: 1 << 40}
	if got, err := Parse(want.String()); err != nil || got != want {
		t.Errorf("Parse(%q) = %v, %v", want.String(), got, err)
	}
	for _, text := range []string{"", "42", "a:1", "42:b"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, got)
		}
	}
}

func TestID_EndedProcessIsNotAlive(t *testing.T) {
	own, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "cat")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(own.Children(), child) {
		t.Errorf("children %v do not contain %v", own.Children(), child)
	}
	_ = input.Close()
	if _, err := cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	if child.Alive() {
		t.Error("an ended process counts as alive")
	}
	if _, err := Of(child.PID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Of an ended process: %v, want fs.ErrNotExist", err)
	}
}

func TestFind_ProcessesByEnvironment(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	cmd.Env = []string{"PROCID_TEST=" + t.Name()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	child, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	found, err := Find("environ", func(environment []byte) bool {
		return strings.Contains(string(environment), "PROCID_TEST="+t.Name())
	})
	if err != nil || !slices.Equal(found, []ID{child}) {
		t.Errorf("found %v (%v), want only %v", found, err, child)
	}
	all, err := Find("environ", func([]byte) bool { return true })
	if err != nil || slices.ContainsFunc(all, func(id ID) bool { return id.PID == os.Getpid() }) {
		t.Errorf("this process found itself among %v (%v)", all, err)
	}
}
