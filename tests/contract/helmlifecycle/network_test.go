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
	// moved is set, to the images that were assembled before, where the program is in its own network.
	moved = "DROVER_TEST_MOVED"
	// serviceRange holds the addresses of the plane's Services.
	serviceRange = "10.43.0.0/16"
	// pods is how many there may be: two replicas with their successors, one more to come, and that of helm test.
	pods     = 8
	firstPod = 10
)

// network is the program's own: the namespace with everything but pods, and theirs. Two of that name do not meet, because neither can be seen
// outside.
var network = lab.Network{Namespace: "drover-helm"}

// move runs this program anew where nothing it makes is on the machine, and returns its exit code: with mounts of its own, below which the names
// of network namespaces are, and /etc/hosts, which pods inherit; in a network of its own; and as the first of processes that end with it,
// however it ends. With the last of them all of it is gone.
func move(ctx context.Context, images any) (int, error) {
	carried, err := json.Marshal(images)
	if err != nil {
		return 0, err
	}
	runtime.LockOSThread() // mounts and network are those of this thread, whose end would be that of the program
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

// arrive finishes the move: the machine's /proc knows the processes by other numbers.
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
	// Every address of a Service is one of this network.
	route := exec.CommandContext(ctx, "ip", "-n", network.Namespace, "route", "add", "local", serviceRange, "dev", "lo")
	if out, err := route.CombinedOutput(); err != nil {
		return fmt.Errorf("take the addresses of Services: %w: %s", err, out)
	}
	return nil
}

// separateMounts gives this thread mounts of its own. The machine's files stay as they are.
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

// podNetworks are for the process kubelet.
func podNetworks() []managementplane.Network {
	out := make([]managementplane.Network, pods)
	for i := range out {
		out[i] = managementplane.Network{Path: "/run/netns/" + network.Member(podName(i)), Address: podAddress(i).String()}
	}
	return out
}
