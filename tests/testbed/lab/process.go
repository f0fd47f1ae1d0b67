package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process names a process so that another one that got the same pid later is not mistaken for it.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // start time in clock ticks since boot, field 22 of /proc/PID/stat
}

func (p process) String() string { return fmt.Sprintf("%d:%d", p.PID, p.Start) }

func parseProcess(text string) (process, error) {
	pid, start, _ := strings.Cut(text, ":")
	p, err := strconv.Atoi(pid)
	if err != nil {
		return process{}, fmt.Errorf("parse process %q: %w", text, err)
	}
	s, err := strconv.ParseUint(start, 10, 64)
	if err != nil {
		return process{}, fmt.Errorf("parse process %q: %w", text, err)
	}
	return process{PID: p, Start: s}, nil
}

// identify reads the start time of a running process.
func identify(pid int) (process, error) {
	start, _, err := procStat(pid)
	return process{PID: pid, Start: start}, err
}

// procStat reads a process's start time and parent.
func procStat(pid int) (start uint64, parent int, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The command name is in parentheses and may hold anything, spaces and parentheses too.
	_, rest, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0, 0, fmt.Errorf("read /proc/%d/stat: unexpected form", pid)
	}
	if fields[0] == "Z" {
		return 0, 0, os.ErrProcessDone
	}
	parent, err = strconv.Atoi(fields[1])
	if err != nil {
		return 0, 0, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, parent, err
}

// alive says whether this very process still runs. A zombie does not.
func (p process) alive() bool {
	if p.PID <= 0 {
		return false
	}
	start, _, err := procStat(p.PID)
	return err == nil && start == p.Start
}

// children returns the pids whose parent this process is.
func (p process) children() []int {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		if _, parent, err := procStat(pid); err == nil && parent == p.PID {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends a signal if this very process still runs.
func (p process) signal(sig syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// wait returns nil once the process has ended.
func (p process) wait(ctx context.Context) error {
	return until(ctx, 20*time.Millisecond, func() bool { return !p.alive() })
}

// until polls a condition that the kernel tells nobody about.
func until(ctx context.Context, every time.Duration, done func() bool) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}
