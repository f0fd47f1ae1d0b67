package processkubelet

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// ExecMain runs a command in the namespaces of a running container. args are the name, the container's pid, the path of
// its specification and the command.
func ExecMain(args []string) int {
	if len(args) < 4 {
		fmt.Fprintln(os.Stderr, "process-exec: a pid, a specification and a command are required; the process "+
			"kubelet starts this program")
		return 2
	}
	if err := becomeExec(args[1], args[2], args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 126
	}
	return 0
}

func becomeExec(pid, specPath string, command []string) error {
	var spec containerSpec
	if err := readJSON(specPath, &spec); err != nil {
		return err
	}
	if _, err := strconv.Atoi(pid); err != nil {
		return fmt.Errorf("pid %q: %w", pid, err)
	}
	// A thread can enter another mount namespace only when no other thread shares its root and working directory. The
	// program that replaces the process then runs in this thread's namespaces.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("separate thread: %w", err)
	}
	if err := enterNetwork("/proc/" + pid + "/ns/net"); err != nil {
		return err
	}
	namespace, err := os.Open("/proc/" + pid + "/ns/mnt")
	if err != nil {
		return fmt.Errorf("open the container's mounts: %w", err)
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the container's mounts: %w", err)
	}
	if err := os.Chdir(spec.Dir); err != nil {
		return fmt.Errorf("enter working directory: %w", err)
	}
	return become(spec.UID, spec.GID, spec.Groups, command[0], command[1:], spec.Env)
}
