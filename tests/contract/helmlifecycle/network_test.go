package helmlifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-io/drover/pkg/local/managementplane"
	"github.com/drover-io/drover/tests/testbed/lab"
)

const (
	// moved is set in the program's own network. Its value describes the images that were built before.
	moved = "DROVER_TEST_MOVED"
	// serviceRange is the address range of the plane's Services.
	serviceRange = "10.43.0.0/16"
	// pods is the maximum number of pods: two replicas with their successors, one surge pod and the pod of helm test.
	pods     = 8
	firstPod = 10
)

// network is the program's network: the namespace of everything except pods, and the namespaces of the pods. Several
// networks can have the same name, because they are invisible outside.
var network = lab.Network{Namespace: "drover-helm"}

// move runs this program again in an isolated environment and returns its exit code. The new process has its own mounts
// for /run/netns and for /etc/hosts, which pods inherit. It has its own network and is the first process of a PID
// namespace, whose processes all end with it. The environment disappears with the last process.
func move(ctx context.Context, images any) (int, error) {
	carried, err := json.Marshal(images)
	if err != nil {
		return 0, err
	}
	runtime.LockOSThread() // mounts and network belong to this thread, and the program would end with it
	if err := separateMounts(); err != nil {
		return 0, fmt.Errorf("leave the machine's mounts: %w", err)
	}
	if err := makeNetwork(ctx); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	again := exec.CommandContext(ctx, self, os.Args[1:]...)
	again.Env = append(os.Environ(), moved+"="+string(carried))
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Pdeathsig: unix.SIGKILL}
	err = lab.InNamespace(network.Namespace, again.Run)
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		return max(1, again.ProcessState.ExitCode()), nil
	}
	return 0, err
}

// arrive completes the move. It mounts a new /proc, because the machine's /proc has other process IDs.
func arrive(carried string, images any) error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return json.Unmarshal([]byte(carried), images)
}

func makeNetwork(ctx context.Context) error {
	if err := network.Make(ctx); err != nil {
		return err
	}
	for i := range pods {
		if err := network.Join(ctx, podName(i), podAddress(i)); err != nil {
			return err
		}
	}
	// All addresses of Services are local to this network.
	route := exec.CommandContext(ctx, "ip", "-n", network.Namespace, "route", "add", "local", serviceRange, "dev", "lo")
	if out, err := route.CombinedOutput(); err != nil {
		return fmt.Errorf("assign the addresses of Services: %w: %s", err, out)
	}
	return nil
}

// separateMounts gives this thread its own mounts. It does not change the machine's files.
func separateMounts() error {
	const names = "/run/netns"
	if err := os.MkdirAll(names, 0o755); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", names, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	hosts, err := os.ReadFile(hostsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	own, err := os.CreateTemp("", "drover-hosts-")
	if err != nil {
		return err
	}
	defer own.Close()
	defer os.Remove(own.Name())
	if _, err := own.Write(hosts); err != nil {
		return err
	}
	if err := own.Chmod(0o644); err != nil {
		return err
	}
	return unix.Mount(own.Name(), hostsFile, "", unix.MS_BIND, "")
}

func podName(i int) string { return fmt.Sprintf("pod-%d", i) }

func podAddress(i int) netip.Addr {
	address := lab.Gateway.As4()
	address[3] = byte(firstPod + i)
	return netip.AddrFrom4(address)
}

// podNetworks returns the networks for the process kubelet.
func podNetworks() []managementplane.Network {
	out := make([]managementplane.Network, pods)
	for i := range out {
		out[i] = managementplane.Network{Path: "/run/netns/" + network.Member(podName(i)),
			Address: podAddress(i).String()}
	}
	return out
}
