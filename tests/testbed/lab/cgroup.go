package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupParents returns this process's folder in every mounted control group hierarchy: one with cgroup v2, about ten
// with v1. Each machine gets its own group below each. The systemd inside treats that group as its root, so two
// machines in one group would manage each other's services.
func cgroupParents() ([]string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read own control groups: %w", err)
	}
	paths := map[string]string{}
	for line := range strings.Lines(string(own)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 {
			paths[parts[1]] = parts[2]
		}
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer mounts.Close()
	var parents []string
	for scanner := bufio.NewScanner(mounts); scanner.Scan(); {
		front, back, ok := strings.Cut(scanner.Text(), " - ")
		fields, tail := strings.Fields(front), strings.Fields(back)
		if !ok || len(fields) < 5 || len(tail) < 3 {
			continue
		}
		path := ""
		switch tail[0] {
		case "cgroup2":
			path = paths[""]
		case "cgroup":
			path = hierarchyPath(paths, strings.Split(tail[2], ","))
		default:
			continue
		}
		if path == "" {
			path = "/"
		}
		parents = append(parents, filepath.Join(fields[4], path))
	}
	slices.Sort(parents)
	return slices.Compact(parents), nil
}

// hierarchyPath returns this process's path in the v1 hierarchy with the given mount options.
func hierarchyPath(paths map[string]string, options []string) string {
	for controllers, path := range paths {
		for controller := range strings.SplitSeq(controllers, ",") {
			if controller != "" && slices.Contains(options, controller) {
				return path
			}
		}
	}
	return ""
}

// makeCgroup creates a control group that accepts processes. A v1 cpuset accepts none until its CPUs and memory nodes
// are set.
func makeCgroup(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make control group: %w", err)
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(path), file))
		if err != nil || strings.TrimSpace(string(value)) == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(path, file), value, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set %s of control group: %w", file, err)
		}
	}
	return nil
}

// removeCgroup removes a group and its subgroups, which must hold no process.
func removeCgroup(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read control group: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeCgroup(filepath.Join(path, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove control group: %w", err)
	}
	return nil
}
