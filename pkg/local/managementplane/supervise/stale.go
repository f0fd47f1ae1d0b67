package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drover-io/drover/pkg/local/localfile"
	"github.com/drover-io/drover/pkg/local/managementplane/procid"
)

// markVariable is an environment variable of every child, with the run directory of its supervisor. It finds children
// that started just before their record was written.
const markVariable = "DROVER_SUPERVISED_BY"

// staleGrace is the time that children of a killed run have to stop. It is short because that run got no grace either,
// so their data are safe from a crash. Until they stop, no API is available.
const staleGrace = time.Second

// record identifies a child on disk.
type record struct {
	procid.ID
	// BootID is the boot of the process.
	BootID string `json:"bootID"`
}

func environmentMark(runDir string) string { return markVariable + "=" + runDir }

func recordFile(runDir, name string) string { return filepath.Join(runDir, name+".json") }

func writeRecord(runDir, name string, pid int) error {
	id, err := procid.Of(pid)
	if err != nil {
		return fmt.Errorf("identify process: %w", err)
	}
	content, err := json.Marshal(record{ID: id, BootID: bootID()})
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	return localfile.Write(recordFile(runDir, name), content)
}

func removeRecord(runDir, name string) { _ = os.Remove(recordFile(runDir, name)) }

// endStale ends the processes of an earlier run of this directory. The caller holds the lock, so that run has ended.
func endStale(ctx context.Context, opts Options) error {
	stale, err := recorded(opts.RunDir)
	if err != nil {
		return err
	}
	all, err := marked(opts.RunDir)
	if err != nil {
		return err
	}
	for _, found := range all {
		if _, known := stale[found.PID]; !known {
			stale[found.PID] = found
		}
	}
	if err := endProcesses(ctx, opts, stale); err != nil {
		return err
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

// recorded returns the records of the run directory by pid. It skips damaged records, because the mark finds their
// processes.
func recorded(runDir string) (map[int]procid.ID, error) {
	files, err := filepath.Glob(recordFile(runDir, "*"))
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	out := map[int]procid.ID{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read record: %w", err)
		}
		var r record
		if json.Unmarshal(content, &r) == nil && r.PID > 1 && r.BootID == bootID() {
			out[r.PID] = r.ID
		}
	}
	return out, nil
}

// marked returns the processes with the mark of runDir in their environment.
func marked(runDir string) ([]procid.ID, error) {
	mark := []byte(environmentMark(runDir))
	return procid.Find("environ", func(environment []byte) bool {
		for variable := range bytes.SplitSeq(environment, []byte{0}) {
			if bytes.Equal(variable, mark) {
				return true
			}
		}
		return false
	})
}

// endProcesses sends SIGTERM to all processes, waits, and then sends SIGKILL. They are not children of this process, so
// it detects their end in /proc.
func endProcesses(ctx context.Context, opts Options, stale map[int]procid.ID) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	kill := time.After(staleGrace)
	for _, id := range stale {
		if !id.Alive() {
			continue
		}
		opts.Log.WithField("pid", id.PID).Info("Ending a process of an earlier run")
		if err := id.Signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	for {
		maps.DeleteFunc(stale, func(_ int, id procid.ID) bool { return !id.Alive() })
		if len(stale) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for processes %v to end: %w", slices.Sorted(maps.Keys(stale)), ctx.Err())
		case <-kill:
			for _, id := range stale {
				if err := id.Signal(syscall.SIGKILL); err != nil {
					return err
				}
			}
		case <-ticker.C:
		}
	}
}

func bootID() string {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}
