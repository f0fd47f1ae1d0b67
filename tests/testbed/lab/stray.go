package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drover-io/drover/pkg/local/managementplane/procid"
)

// The lab can record a process only after its start, and may be killed in between. It therefore finds a machine's
// processes without a record too. The control groups are recorded before they are created. They hold all processes
// except the first one until it has entered them. That first process has the mark in its environment.

// markVariable is an environment variable of every host process that boots a machine. Its value is LAB/MACHINE.
const markVariable = "DROVER_LAB"

func (l *Lab) mark(machine string) string { return markVariable + "=" + l.name + "/" + machine }

// marked returns the processes with an environment variable, as NAME=VALUE, that begins with prefix.
func marked(prefix string) ([]procid.ID, error) {
	return procid.Find("environ", func(environment []byte) bool {
		return bytes.Contains(append([]byte{0}, environment...), append([]byte{0}, prefix...))
	})
}

// endStrays kills what a killed run left of a machine, and removes its control groups. The caller has checked that the
// recorded process does not run.
func (l *Lab) endStrays(ctx context.Context, machine string) error {
	strays, err := marked(l.mark(machine) + "\x00")
	if err != nil {
		return err
	}
	for _, stray := range strays {
		if err := pullPlug(ctx, stray); err != nil {
			return fmt.Errorf("end the remaining processes of machine %s: %w", machine, err)
		}
	}
	return l.removeCgroups(ctx, machine)
}

// pullPlug kills a machine at once, given the process that boots it. The machine's PID 1 is a child of systemd-nspawn.
// When PID 1 is killed, every process of the machine ends, and systemd-nspawn cleans up and exits. pullPlug waits for a
// child if there is none yet.
func pullPlug(ctx context.Context, p procid.ID) error {
	bounded, cancel := context.WithTimeout(ctx, plugTimeout)
	defer cancel()
	if until(bounded, 20*time.Millisecond, func() bool {
		for _, child := range p.Children() {
			_ = child.Signal(syscall.SIGKILL)
		}
		return !p.Alive()
	}) == nil {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return awaitEnd(ctx, p)
}

// killCgroup sends SIGKILL to every process in a control group and its subgroups. It uses cgroup.kill where the kernel
// has it (v2), and otherwise signals each process.
func killCgroup(group string) error {
	if err := os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0); err == nil {
		return nil
	}
	return filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "cgroup.procs" {
			return ignoreGone(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return ignoreGone(err)
		}
		for line := range strings.Lines(string(content)) {
			// 0 stands for a process in a namespace that this process cannot see.
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil || pid <= 1 || pid == os.Getpid() {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end process %d of control group %s: %w", pid, group, err)
			}
		}
		return nil
	})
}

// ignoreGone ignores errors about processes or groups that have disappeared meanwhile.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}
