package processkubelet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// reportFD is the pipe on which the init process reports to its shim why it could not become the container's program. A
// successful exec closes it.
const reportFD = 3

// InitMain is the first process of a container, in its own mount namespace. It builds the root file system, drops its
// privileges and becomes the program. args[1] is the path of the specification.
func InitMain(args []string) int {
	report := os.NewFile(reportFD, "report")
	syscall.CloseOnExec(reportFD)
	if err := becomeContainer(args); err != nil {
		if report != nil {
			fmt.Fprint(report, err)
		}
		return 128
	}
	return 0
}

func becomeContainer(args []string) error {
	if len(args) != 2 {
		return errors.New("process-init: a specification is required; the shim starts this program")
	}
	var spec containerSpec
	if err := readJSON(args[1], &spec); err != nil {
		return err
	}
	// The program that replaces the process runs in this thread's namespaces.
	runtime.LockOSThread()
	if spec.Network != "" {
		if err := enterNetwork(spec.Network); err != nil {
			return err
		}
	}
	unix.Umask(0)
	if err := enterRoot(spec); err != nil {
		return err
	}
	for _, dir := range []string{spec.Home, spec.Dir} {
		if err := ownDirectory(dir, spec.UID, spec.GID); err != nil {
			return err
		}
	}
	if spec.ReadOnlyRoot {
		if err := unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
			""); err != nil {
			return fmt.Errorf("make the root file system read-only: %w", err)
		}
	}
	if err := os.Chdir(spec.Dir); err != nil {
		return fmt.Errorf("enter working directory: %w", err)
	}
	unix.Umask(0o022)
	return become(spec.UID, spec.GID, spec.Groups, spec.Program, spec.Args, spec.Env)
}

func enterNetwork(path string) error {
	namespace, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open network of the pod: %w", err)
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network of the pod: %w", err)
	}
	return nil
}

// ownDirectory creates a directory that belongs to the user. It does not change an existing directory.
func ownDirectory(dir string, uid, gid int) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		return fmt.Errorf("give directory %s to user %d: %w", dir, uid, err)
	}
	return nil
}

// become changes the user and replaces this process with the program. It returns only on error.
func become(uid, gid int, groups []int, program string, args, env []string) error {
	path, err := lookUp(program, env)
	if err != nil {
		return err
	}
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("set groups: %w", err)
	}
	if err := syscall.Setgid(gid); err != nil {
		return fmt.Errorf("become group %d: %w", gid, err)
	}
	if err := syscall.Setuid(uid); err != nil {
		return fmt.Errorf("become user %d: %w", uid, err)
	}
	if err := syscall.Exec(path, append([]string{program}, args...), env); err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	return nil
}

// lookUp finds a program without a slash in its name in the container's PATH.
func lookUp(program string, env []string) (string, error) {
	if strings.Contains(program, "/") {
		return program, nil
	}
	for _, variable := range env {
		list, ok := strings.CutPrefix(variable, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			candidate := filepath.Join(dir, program)
			if info, err := os.Stat(candidate); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
				return candidate, nil
			}
		}
	}
	return "", &exec.Error{Name: program, Err: exec.ErrNotFound}
}
