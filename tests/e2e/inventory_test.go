package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hostScope identifies what a lab or rig can leave on this host, by name and folder.
type hostScope struct {
	name string
	dir  string
}

// inventory lists everything on this host that may belong to the lab or rig: all network namespaces and interfaces,
// control groups, mounts, processes and files. It omits process IDs, so that an equal state gives an equal list.
func (s hostScope) inventory(t *testing.T) []string {
	t.Helper()
	interfaces, err := net.Interfaces()
	must(t, err)
	var list []string
	for _, link := range interfaces {
		list = append(list, "network interface "+link.Name)
	}
	namespaces := networkNamespaces(t)
	for _, name := range namespaces {
		list = append(list, "network namespace "+name)
	}
	list = append(list, s.controlGroups(t)...)
	list = append(list, s.processes(t, namespaces)...)
	list = append(list, s.files(t)...)
	slices.Sort(list)
	return list
}

// lab is the name of the lab's namespaces and control groups. A machine's name may follow.
func (s hostScope) lab() string { return "drover-" + s.name }

func (s hostScope) isLabs(name string) bool {
	rest, ok := strings.CutPrefix(name, s.lab())
	return ok && (rest == "" || rest[0] == '-')
}

// networkNamespaces returns the names of the named network namespaces by inode.
func networkNamespaces(t *testing.T) map[uint64]string {
	t.Helper()
	entries, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	names := map[uint64]string{}
	for _, entry := range entries {
		if inode, ok := inode(filepath.Join("/run/netns", entry.Name())); ok {
			names[inode] = entry.Name()
		}
	}
	return names
}

func inode(path string) (uint64, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return status.Ino, true
}

func (s hostScope) controlGroups(t *testing.T) []string {
	t.Helper()
	var list []string
	must(t, filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() && slices.ContainsFunc(strings.Split(path, "/"), s.isLabs) {
			list = append(list, "control group "+path)
		}
		return err
	}))
	return list
}

// processes lists processes that belong to the rig by any sign, and mounts in any process's mount namespace.
func (s hostScope) processes(t *testing.T, namespaces map[uint64]string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	own, _ := inode("/proc/self/ns/net")
	var list []string
	for _, dir := range files {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		line := strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
		for _, mount := range s.mounts(dir) {
			list = append(list, "mount "+mount)
		}
		if pid == os.Getpid() || line == "" {
			continue // this test, a kernel thread or a zombie
		}
		if why := s.belongs(dir, namespaces, own); why != "" {
			list = append(list, fmt.Sprintf("process %s (%s)", line, why))
		}
	}
	slices.Sort(list)
	// Every process of a mount namespace shows the same mounts, so duplicates of mounts are removed. Processes are not.
	return slices.CompactFunc(list, func(a, b string) bool { return a == b && strings.HasPrefix(a, "mount ") })
}

// mounts returns the process's mounts of the rig's folder or the lab's namespaces.
func (s hostScope) mounts(process string) []string {
	content, err := os.ReadFile(filepath.Join(process, "mountinfo"))
	if err != nil {
		return nil
	}
	var list []string
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && (strings.Contains(line, s.dir) || strings.HasPrefix(fields[4], "/run/netns/") &&
			s.isLabs(filepath.Base(fields[4]))) {
			list = append(list, fields[3]+" at "+fields[4])
		}
	}
	return list
}

// belongs returns the sign by which a process belongs to the rig, or "".
func (s hostScope) belongs(process string, namespaces map[uint64]string, own uint64) string {
	for _, file := range []string{"cmdline", "environ"} {
		if content, err := os.ReadFile(filepath.Join(process, file)); err == nil &&
			bytes.Contains(content, []byte(s.dir)) {
			return "the folder in its " + file
		}
	}
	if content, err := os.ReadFile(filepath.Join(process, "environ")); err == nil &&
		bytes.Contains(append([]byte{0}, content...), []byte("\x00DROVER_LAB="+s.name+"/")) {
		return "the lab's mark"
	}
	if content, err := os.ReadFile(filepath.Join(process, "cgroup")); err == nil {
		for line := range strings.Lines(string(content)) {
			if slices.ContainsFunc(strings.Split(strings.TrimSpace(line), "/"), s.isLabs) {
				return "a control group"
			}
		}
	}
	for _, link := range []string{"cwd", "root", "exe"} {
		if target, err := os.Readlink(filepath.Join(process, link)); err == nil && strings.HasPrefix(target, s.dir) {
			return "its " + link
		}
	}
	network, ok := inode(filepath.Join(process, "ns/net"))
	if name := namespaces[network]; ok && network != own && s.isLabs(name) {
		return "network namespace " + name
	}
	return ""
}

// volatile are files below a rig's folder that running programs keep writing: databases, logs and records.
var volatile = []string{"drover/etcd", "logs", "drover/logs", "lab/events.jsonl", "lab/record.jsonl"}

// files lists the folder, and files that the rig's programs might leave in shared places.
func (s hostScope) files(t *testing.T) []string {
	t.Helper()
	var list []string
	must(t, filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if relative, err := filepath.Rel(s.dir, path); err == nil && slices.Contains(volatile, relative) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		list = append(list, "file "+path)
		return nil
	}))
	home, err := os.UserHomeDir()
	must(t, err)
	for _, pattern := range []string{
		filepath.Join(os.TempDir(), "drivers-*"), filepath.Join(os.TempDir(), "machine-*"),
		filepath.Join(os.TempDir(), "drover-e2e-*"),
		filepath.Join(home, ".docker", "machine*"), "/run/systemd/nspawn/*/*", "/etc/rancher", "/var/lib/rancher",
	} {
		found, err := filepath.Glob(pattern)
		must(t, err)
		for _, path := range found {
			if path != s.dir {
				list = append(list, "file "+path)
			}
		}
	}
	return list
}

// awaitSame waits until an inventory is as before, and otherwise prints the difference.
func awaitSame(t *testing.T, what string, before []string, now func() []string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		diff := cmp.Diff(before, now())
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s has changed (-before +after):\n%s", what, diff)
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(250 * time.Millisecond):
		}
	}
}
