package lab

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Kubelets prepares machines for real kubelets, which run containers with containerd.
type Kubelets struct {
	// Archives are archives of container images: paths on the machines below /var/lib/rancher, and files on this host.
	Archives map[string]string
	// CgroupV1Config are paths on the machines of configuration that allows kubelets to run with control groups v1.
	CgroupV1Config []string
}

// volumes are folders of a machine outside its disk. The disk is an overlay, on which containerd cannot mount its own
// overlays.
var volumes = []string{"/var/lib/rancher", "/var/lib/kubelet", "/var/lib/cni"}

// cgroupUnit makes the mounts of control groups v1 writable. systemd-nspawn mounts them read-only, although each shows
// only the machine's own group.
const cgroupUnit = `[Unit]
Description=Make control groups writable for a kubelet
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -euc 'for group in /sys/fs/cgroup/*; do ` +
	`[ -h "$group" ] || ! mountpoint -q "$group" || mount -o remount,bind,rw "$group"; done'
`

// kmsg is the kernel's log, without which a kubelet does not start. The journals of machines do not copy it.
const kmsg = "/dev/kmsg"

// cgroupV1Config is the configuration of RKE2 and K3s for hosts with control groups v1. From Kubernetes 1.35, a kubelet
// does not start there by default. The "+" adds the argument to those in earlier files.
const cgroupV1Config = "kubelet-arg+:\n- fail-cgroupv1=false\n"

// prepareKubelet prepares a machine that is about to boot for a kubelet. Every boot does so, because the user may
// have added a release since the last boot.
func (l *Lab) prepareKubelet(machine string) error {
	if l.kubelets == nil {
		return nil
	}
	if err := l.prepareVolumes(machine); err != nil {
		return err
	}
	return l.configureKubelet(machine)
}

// configureKubelet writes to the disk of a machine what a kubelet needs.
func (l *Lab) configureKubelet(machine string) error {
	files := map[string]string{
		"etc/systemd/system/lab-cgroups.service":      cgroupUnit,
		"etc/systemd/journald.conf.d/lab-kernel.conf": "[Journal]\nReadKMsg=no\n",
	}
	found, err := hierarchies()
	if err != nil {
		return err
	}
	if hasCgroupV1(found) {
		for _, path := range l.kubelets.CgroupV1Config {
			files[strings.TrimPrefix(path, "/")] = cgroupV1Config
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		target := filepath.Join(l.disk(machine), path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o755),
			os.WriteFile(target, []byte(files[path]), 0o644)); err != nil {
			return fmt.Errorf("write disk of %s: %w", machine, err)
		}
	}
	wants := filepath.Join(l.disk(machine), "etc/systemd/system/sysinit.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return fmt.Errorf("write disk of %s: %w", machine, err)
	}
	link := filepath.Join(wants, "lab-cgroups.service")
	if err := os.Symlink("../lab-cgroups.service", link); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("write disk of %s: %w", machine, err)
	}
	return nil
}

// prepareVolumes creates the volumes of a machine and places the archives. The distribution imports new archives when
// it starts.
func (l *Lab) prepareVolumes(machine string) error {
	for _, volume := range volumes {
		if err := os.MkdirAll(l.volume(machine, volume), 0o755); err != nil {
			return fmt.Errorf("make volume of %s: %w", machine, err)
		}
	}
	for path, source := range l.kubelets.Archives {
		below, err := filepath.Rel(volumes[0], path)
		if err != nil || !filepath.IsLocal(below) {
			return fmt.Errorf("%w: image archive %s: use a path below %s", ErrInvalid, path, volumes[0])
		}
		if err := Place(source, filepath.Join(l.volume(machine, volumes[0]), below)); err != nil {
			return fmt.Errorf("machine %s: %w", machine, err)
		}
	}
	return nil
}

// volume returns the folder on this host of one of a machine's volumes.
func (l *Lab) volume(machine, path string) string {
	return filepath.Join(l.folder(machine), "volumes", strings.ReplaceAll(strings.Trim(path, "/"), "/", "-"))
}

// kubeletArguments returns the arguments and the environment of systemd-nspawn for a machine with a real kubelet.
func (l *Lab) kubeletArguments(machine string) (args, env []string) {
	if l.kubelets == nil {
		return nil, nil
	}
	args = []string{"--bind=" + kmsg}
	for _, volume := range volumes {
		args = append(args, "--bind="+l.volume(machine, volume)+":"+volume)
	}
	// A kubelet and the network plugins set parameters of the kernel below /proc/sys.
	return args, []string{"SYSTEMD_NSPAWN_API_VFS_WRITABLE=1"}
}
