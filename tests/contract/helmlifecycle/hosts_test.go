package helmlifecycle

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/drover-io/drover/tests/charts"
)

const (
	// service is the name by which pods find the Service of the chart.
	service = "drover." + charts.SystemNamespace + ".svc"
	// resolved is set where it is found.
	resolved = "DROVER_TEST_SERVICE"
)

// resolveService starts this program anew with an /etc/hosts of its own, which the pods inherit: the plane has neither DNS nor
// kube-proxy. The machine's file stays as it is.
func resolveService() error {
	if os.Getenv(resolved) == service {
		return nil
	}
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "drover-hosts-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := fmt.Fprintf(file, "%s\n127.0.0.1 %s\n", hosts, service); err != nil {
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	runtime.LockOSThread() // the mounts are those of this thread until the program starts anew
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("leave the machine's mounts: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("leave the machine's mounts: %w", err)
	}
	if err := unix.Mount(file.Name(), "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("replace /etc/hosts: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(self, os.Args, append(os.Environ(), resolved+"="+service))
}
