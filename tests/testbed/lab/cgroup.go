package lab

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hierarchy is a mounted hierarchy of control groups: one with cgroup v2, about ten with v1.
type hierarchy struct {
	// mount is where it is mounted, and path is this process's group below that.
	mount, path string
	v1          bool
}

func (h hierarchy) folder() string { return filepath.Join(h.mount, h.path) }

// hierarchies returns the hierarchies that are mounted on this host.
func hierarchies() ([]hierarchy, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("read own control groups: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return parseHierarchies(string(own), string(mounts)), nil
}

// parseHierarchies reads the content of /proc/self/cgroup and /proc/self/mountinfo.
func parseHierarchies(own, mounts string) []hierarchy {
	paths := map[string]string{}
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 {
			paths[parts[1]] = parts[2]
		}
	}
	var found []hierarchy
	for line := range strings.Lines(mounts) {
		front, back, ok := strings.Cut(line, " - ")
		fields, tail := strings.Fields(front), strings.Fields(back)
		if !ok || len(fields) < 5 || len(tail) < 3 {
			continue
		}
		one := hierarchy{mount: fields[4]}
		switch tail[0] {
		case "cgroup2":
			one.path = paths[""]
		case "cgroup":
			one.path, one.v1 = hierarchyPath(paths, strings.Split(tail[2], ",")), true
		default:
			continue
		}
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b hierarchy) int { return cmp.Compare(a.folder(), b.folder()) })
	return slices.CompactFunc(found, func(a, b hierarchy) bool { return a.folder() == b.folder() })
}

// cgroupParents returns the folders in which machines get their groups: this process's own group in every hierarchy.
// The systemd inside treats its group as its root, so two machines in one group would manage each other's services.
//
// Kubelets need the controllers. With cgroup v2, only the root group may have both processes and controllers for its
// children, so machines with kubelets get their groups there.
func cgroupParents(kubelets bool) ([]string, error) {
	found, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var parents []string
	for _, one := range found {
		if kubelets && !hasCgroupV1(found) {
			if err := enableControllers(one.mount); err != nil {
				return nil, err
			}
			one.path = "/"
		}
		parents = append(parents, one.folder())
	}
	return parents, nil
}

// hasCgroupV1 reports whether a host manages resources with control groups v1.
func hasCgroupV1(found []hierarchy) bool {
	return slices.ContainsFunc(found, func(one hierarchy) bool { return one.v1 })
}

// enableControllers gives the children of a v2 group the controllers that kubelets use.
func enableControllers(group string) error {
	for _, controller := range []string{"cpu", "cpuset", "io", "memory", "pids"} {
		err := os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0)
		if err != nil {
			return fmt.Errorf("enable controller %s of control groups: %w", controller, err)
		}
	}
	return nil
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
