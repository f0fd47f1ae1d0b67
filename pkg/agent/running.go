package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	outputGrace = 5 * time.Second
	maxLogLine  = 4096
)

// recordRunning records the process group of a started instruction. The returned function removes the record.
func recordRunning(file string, pid int) (forget func()) {
	start, err := startTime(pid)
	if file == "" || err != nil {
		return func() {}
	}
	if os.WriteFile(file, fmt.Appendf(nil, "%d %s\n", pid, start), 0o600) != nil {
		return func() {}
	}
	return func() { os.Remove(file) }
}

// endOrphan kills the process group that a killed agent left running, so that a plan does not run twice at once. It
// identifies the process by its start time, because process ids are reused. It reports whether it found one.
func endOrphan(ctx context.Context, file string) bool {
	data, err := os.ReadFile(file)
	if file == "" || err != nil {
		return false
	}
	defer os.Remove(file)
	pidText, start, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	pid, err := strconv.Atoi(pidText)
	if err != nil || pid <= 1 {
		return false
	}
	if now, err := startTime(pid); err != nil || now != start || syscall.Kill(-pid, syscall.SIGKILL) != nil {
		return false
	}
	for deadline := time.Now().Add(outputGrace); time.Now().Before(deadline) &&
		ctx.Err() == nil; pause(ctx, 10*time.Millisecond) {
		if now, err := startTime(pid); err != nil || now != start {
			break
		}
	}
	return true
}

// startTime identifies a process in addition to its id: its start in ticks since boot, field 22 of its stat file. It
// fails when the process does not exist or is a zombie.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", fmt.Errorf("read process state: %w", err)
	}
	// The second field is the name in parentheses. It may contain any characters.
	_, rest, found := bytes.Cut(data, []byte(") "))
	for found {
		var more []byte
		if _, more, found = bytes.Cut(rest, []byte(") ")); found {
			rest = more
		}
	}
	fields := bytes.Fields(rest)
	if len(fields) < 20 {
		return "", fmt.Errorf("process state of %d is too short", pid)
	}
	if state := string(fields[0]); state == "Z" || state == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return string(fields[19]), nil
}
