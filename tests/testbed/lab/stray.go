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

// Who a process belongs to can be recorded only after it was started, and a lab may be killed in between. So a machine's processes are
// found without a record as well: its control groups, which are recorded before they are made, hold all of them but the first for the
// moment until it has entered; and that one carries the mark in its environment.

// markVariable is set in the environment of every process of this host that boots a machine, to LAB/MACHINE.
const markVariable = "DROVER_LAB"

func (l *Lab) mark(machine string) string { return markVariable + "=" + l.name + "/" + machine }

// marked returns the processes whose environment has a variable, name and value, that begins with prefix.
func marked(prefix string) ([]procid.ID, error) {
	return procid.Find("environ", func(environment []byte) bool {
		return bytes.Contains(append([]byte{0}, environment...), append([]byte{0}, prefix...))
	})
}

// endStrays ends whatever a killed run left of a machine, and removes its control groups. The caller knows that the machine
// does not run as far as it is recorded.
func (l *Lab) endStrays(ctx context.Context, machine string) error {
	strays, err := marked(l.mark(machine) + "\x00")
	if err != nil {
		return err
	}
	for _, stray := range strays {
		if err := pullPlug(ctx, stray); err != nil {
			return fmt.Errorf("end what is left of machine %s: %w", machine, err)
		}
	}
	return l.removeCgroups(ctx, machine)
}

// pullPlug ends a machine at once, given the process that boots it. The machine's PID 1 is a child of systemd-nspawn: with it ends every
// process of the machine, and systemd-nspawn tidies up and ends by itself. One that has no child yet is given the time to get one.
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

// killCgroup sends SIGKILL to every process in a control group and those below it: in one go where the kernel has cgroup.kill (v2),
// else one by one.
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
			// 0 stands for a process of a namespace that this one cannot see.
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

// ignoreGone takes what vanished while it was looked at for what it is: done.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}
