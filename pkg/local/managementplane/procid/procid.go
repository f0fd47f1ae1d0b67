// Package procid distinguishes a process from a later one with the same pid.
package procid

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ID identifies a process of this boot. A pid alone may be reused.
type ID struct {
	PID int `json:"pid"`
	// Start is the process's start in clock ticks after boot: field 22 of /proc/PID/stat.
	Start uint64 `json:"startTime"`
}

// Of identifies a running process. The error is fs.ErrNotExist if no such process runs, or if it is a zombie.
func Of(pid int) (ID, error) {
	start, _, err := stat(pid)
	return ID{PID: pid, Start: start}, err
}

// String returns the text that Parse reads.
func (id ID) String() string { return fmt.Sprintf("%d:%d", id.PID, id.Start) }

// Parse parses the result of String.
func Parse(text string) (ID, error) {
	pid, start, _ := strings.Cut(text, ":")
	p, err := strconv.Atoi(pid)
	if err != nil {
		return ID{}, fmt.Errorf("parse process %q: %w", text, err)
	}
	s, err := strconv.ParseUint(start, 10, 64)
	if err != nil {
		return ID{}, fmt.Errorf("parse process %q: %w", text, err)
	}
	return ID{PID: p, Start: s}, nil
}

// Alive reports whether this process still runs. A zombie does not.
func (id ID) Alive() bool {
	if id.PID <= 0 {
		return false
	}
	start, _, err := stat(id.PID)
	return err == nil && start == id.Start
}

// Signal sends a signal if this process still runs. It returns no error for an ended process.
func (id ID) Signal(sig syscall.Signal) error {
	if !id.Alive() {
		return nil
	}
	if err := syscall.Kill(id.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	return nil
}

// Children returns the child processes of this process.
func (id ID) Children() []ID {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []ID
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		if start, parent, err := stat(pid); err == nil && parent == id.PID {
			out = append(out, ID{PID: pid, Start: start})
		}
	}
	return out
}

// Find returns the other processes for which match accepts a file of /proc/PID, such as environ or cmdline. It skips
// files that it cannot read, because the process has ended or belongs to another user.
func Find(file string, match func(content []byte) bool) ([]ID, error) {
	files, err := filepath.Glob("/proc/[0-9]*/" + file)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []ID
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil || !match(content) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if id, err := Of(pid); err == nil {
			found = append(found, id)
		}
	}
	return found, nil
}

// stat reads the start time and the parent of a process. Field 2, the program's name in parentheses, may contain spaces
// and parentheses, so parsing starts after the last parenthesis.
func stat(pid int) (start uint64, parent int, err error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	text := string(content)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("read /proc/%d/stat: unexpected format", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, 0, fs.ErrNotExist
	}
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return 0, 0, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	if start, err = strconv.ParseUint(fields[19], 10, 64); err != nil {
		return 0, 0, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	return start, parent, nil
}
