package rig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-io/drover/pkg/local/managementplane/procid"
)

func TestInPodFolder(t *testing.T) {
	const dir = "/data/drover"
	for name, tt := range map[string]struct {
		line []string
		want bool
	}{
		"a shim": {[]string{"/proc/self/exe", "process-shim",
			dir + "/kubelet/pods/uid/containers/main/0"}, true},
		"a container before its program": {[]string{"/proc/self/exe", "process-init",
			dir + "/kubelet/pods/uid/containers/main/0/spec.json"}, true},
		"a shim of another rig": {[]string{"/proc/self/exe", "process-shim",
			"/data/drover-two/kubelet/pods/uid/containers/main/0"}, false},
		"the kubelet itself": {[]string{"drover-kube", "process-kubelet", "--config=" + dir +
			"/kubelet/config.json"}, false},
		"a viewer of a file in the folder": {[]string{"less", dir + "/kubelet/pods/uid/log"}, false},
		"a kernel thread":                  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inPodFolder([]byte(strings.Join(tt.line, "\x00")), dir); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// A shim ends its container on request. The test has a fake shim that does so, and a stopped one with a child.
func TestEndPods(t *testing.T) {
	for name, script := range map[string]string{
		"a shim that ends its container":        `trap 'kill -9 $child; exit' USR1; sleep 1000 & child=$!; echo $child >"$1/pid"; while :; do wait; done`,
		"a shim that was stopped in the middle": `sleep 1000 & echo $! >"$1/pid"; kill -STOP $$`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			attempt := filepath.Join(dir, "kubelet", "pods", "uid")
			if err := os.MkdirAll(attempt, 0o700); err != nil {
				t.Fatal(err)
			}
			// The shell has the shim's command line: the second word is the program, the third is the folder.
			program := filepath.Join(t.TempDir(), "process-shim")
			if err := os.WriteFile(program, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "process-shim", attempt)
			cmd.Dir = filepath.Dir(program)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); _ = cmd.Wait() }()
			container := awaitPID(t, filepath.Join(attempt, "pid"))

			if err := endPods(t.Context(), dir, time.Second); err != nil {
				t.Fatal(err)
			}
			<-ended
			if container.Alive() {
				t.Error("the container outlived the stop")
				_ = container.Signal(syscall.SIGKILL)
			}
		})
	}
}

func awaitPID(t *testing.T, file string) procid.ID {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var id procid.ID
	if err := poll(ctx, func() (bool, error) {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, nil //nolint:nilerr // not there yet
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return false, nil //nolint:nilerr // not whole yet
		}
		id, err = procid.Of(pid)
		return err == nil, err
	}); err != nil {
		t.Fatal(err)
	}
	return id
}
