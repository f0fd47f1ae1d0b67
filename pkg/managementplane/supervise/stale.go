package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// markVariable is set in the environment of every child to the run directory of its supervisor. It finds children that
// were started in the moment before their record was written.
const markVariable = "DROVER_SUPERVISED_BY"

// staleGrace is how long children of a killed run may take to stop.
const staleGrace = 10 * time.Second

// record identifies a process: a pid alone may have been given to another one since.
type record struct {
	PID int `json:"pid"`
	// StartTime is the process's start in clock ticks after boot, as /proc tells it.
	StartTime uint64 `json:"startTime"`
	// BootID is the boot in which the two mean something.
	BootID string `json:"bootID"`
}

func environmentMark(runDir string) string { return markVariable + "=" + runDir }

func recordFile(runDir, name string) string { return filepath.Join(runDir, name+".json") }

func writeRecord(runDir, name string, pid int) error {
	start, err := startTime(pid)
	if err != nil {
		return fmt.Errorf("read start time: %w", err)
	}
	content, err := json.Marshal(record{PID: pid, StartTime: start, BootID: bootID()})
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	file := recordFile(runDir, name)
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

func removeRecord(runDir, name string) { _ = os.Remove(recordFile(runDir, name)) }

// endStale ends the processes that an earlier run of this directory left behind. The caller holds the lock, so that
// run is dead.
func endStale(ctx context.Context, opts Options) error {
	stale, err := recorded(opts.RunDir)
	if err != nil {
		return err
	}
	for _, found := range marked(opts.RunDir) {
		if _, known := stale[found.PID]; !known {
			stale[found.PID] = found
		}
	}
	for _, r := range stale {
		if !alive(r) {
			continue
		}
		opts.Log.WithField("pid", r.PID).Info("Ending a process that an earlier run left behind")
		if err := endProcess(ctx, r); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(recordFile(opts.RunDir, "*"))
	if err != nil {
		return fmt.Errorf("list records: %w", err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("remove record: %w", err)
		}
	}
	return nil
}

// recorded reads the records of the run directory by pid. A damaged record is passed over: the mark finds its process.
func recorded(runDir string) (map[int]record, error) {
	files, err := filepath.Glob(recordFile(runDir, "*"))
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	out := map[int]record{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read record: %w", err)
		}
		var r record
		if json.Unmarshal(content, &r) == nil && r.PID > 1 && r.BootID == bootID() {
			out[r.PID] = r
		}
	}
	return out, nil
}

// marked finds the processes whose environment carries the mark of runDir.
func marked(runDir string) []record {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	mark := []byte(environmentMark(runDir))
	var out []record
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // ended, or another user's
		}
		for variable := range bytes.SplitSeq(content, []byte{0}) {
			if !bytes.Equal(variable, mark) {
				continue
			}
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if start, err := startTime(pid); err == nil && pid != os.Getpid() {
				out = append(out, record{PID: pid, StartTime: start, BootID: bootID()})
			}
			break
		}
	}
	return out
}

// endProcess sends SIGTERM, waits, then sends SIGKILL. The process is not our child: its end shows in /proc alone.
func endProcess(ctx context.Context, r record) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	kill := time.After(staleGrace)
	if err := signal(r, syscall.SIGTERM); err != nil {
		return err
	}
	for alive(r) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for process %d to end: %w", r.PID, ctx.Err())
		case <-kill:
			if err := signal(r, syscall.SIGKILL); err != nil {
				return err
			}
		case <-ticker.C:
		}
	}
	return nil
}

func signal(r record, sig syscall.Signal) error {
	if err := syscall.Kill(r.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", r.PID, err)
	}
	return nil
}

// alive tells whether the very process of the record still runs; a zombie does not.
func alive(r record) bool {
	start, err := startTime(r.PID)
	return err == nil && start == r.StartTime
}

// startTime reads field 22 of /proc/<pid>/stat. Field 2, the program's name in parentheses, may itself hold spaces and
// parentheses, so counting begins after the last one. A zombie is reported as not existing.
func startTime(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	text := string(content)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("process %d: unexpected format of its status", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, fs.ErrNotExist
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func bootID() string {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// takeLock locks the file for this process; the kernel releases it when the process ends, however it ends. Children do
// not inherit it.
func takeLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		file.Close()
		return nil, fmt.Errorf("%s is in use by process %s: stop it first, or choose another directory", filepath.Dir(path), strings.TrimSpace(string(holder)))
	}
	if err := file.Truncate(0); err != nil {
		file.Close()
		return nil, fmt.Errorf("write lock: %w", err)
	}
	if _, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		file.Close()
		return nil, fmt.Errorf("write lock: %w", err)
	}
	return file, nil
}
