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

	"golang.org/x/sys/unix"

	"github.com/drover-io/drover/pkg/managementplane"
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

// move starts this program anew where nothing it makes is on the machine: with mounts of its own, below which the names of network namespaces
// are, and /etc/hosts, which pods inherit; and in a network of its own. All of it vanishes with the last process in it, however that ends.
func move(ctx context.Context, images any) error {
	carried, err := json.Marshal(images)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // mounts and network are those of this thread until the program starts anew
	if err := separateMounts(); err != nil {
		return fmt.Errorf("leave the machine's mounts: %w", err)
	}
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
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return lab.InNamespace(network.Namespace, func() error {
		return unix.Exec(self, os.Args, append(os.Environ(), moved+"="+string(carried)))
	})
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
