package rig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/drover-io/drover/pkg/local/localfile"
)

// A rig in the foreground of a terminal writes its process ID to a file and locks the file while it runs. The lock
// distinguishes a live rig from a killed one. Another process can read the file and ask the rig to stop.

func (o Options) runningFile() string { return filepath.Join(o.Dir, "foreground.pid") }

// Claim records that this process runs the rig in the foreground, until the returned function is called.
func (o Options) Claim() (release func(), err error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	file, err := localfile.Lock(o.runningFile())
	if err != nil {
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}

// EndForeground asks a rig in the foreground of another process to stop, and waits until it has ended.
func (o Options) EndForeground(ctx context.Context) error {
	file, err := os.Open(o.runningFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find running process: %w", err)
	}
	defer file.Close()
	free := func() bool { return syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil }
	if free() {
		return nil
	}
	text, err := os.ReadFile(o.runningFile())
	if err != nil {
		return fmt.Errorf("find running process: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return fmt.Errorf("find running process: %s holds no process id", o.runningFile())
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*stopTimeout)
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return free(), nil }); err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	return nil
}
