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

// recordRunning notes the process group of the instruction that was started, until the returned function is called.
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

// endOrphan ends the process group that a killed predecessor left running, so that the plan does not run twice at once. It
// recognises the process by its start time, because ids are used again. It tells whether there was one.
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
	for deadline := time.Now().Add(outputGrace); time.Now().Before(deadline) && ctx.Err() == nil; pause(ctx, 10*time.Millisecond) {
		if now, err := startTime(pid); err != nil || now != start {
			break
		}
	}
	return true
}

// startTime identifies a process beyond its id: ticks since boot when it started, field 22 of its stat file. It is an error
// when there is no such process, or when it has ended and only waits for its parent to notice.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", fmt.Errorf("read process state: %w", err)
	}
	// The second field is the name in parentheses and may contain anything.
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
