package processkubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The container's root is a tmpfs. It has the machine's programs and libraries, read-only. Of /etc it has only what
// programs need to resolve names, users and certificates. Nothing else of the machine is visible, not even /home, /var
// or /run.
var (
	systemDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}
	etcEntries = []string{
		"alternatives", "ca-certificates", "ca-certificates.conf", "group", "host.conf", "hosts", "ld.so.cache",
		"ld.so.conf",
		"ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "passwd", "pki", "protocols", "resolv.conf",
		"services",
		"ssl/certs", "ssl/openssl.cnf", "timezone",
	}
	devices = []string{"null", "zero", "full", "random", "urandom", "tty"}
)

// enterRoot builds the root file system with its mounts and makes it this process's root.
func enterRoot(spec containerSpec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separate mounts from the machine's: %w", err)
	}
	root := spec.RootDir
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount root file system: %w", err)
	}
	steps := []func(string, containerSpec) error{addSystem, addEtc, addDevices, addKernel, addScratch, addMounts}
	if spec.ImageDir != "" {
		var err error
		if root, err = mountImage(root, spec.ImageDir); err != nil {
			return err
		}
		steps = []func(string, containerSpec) error{addImageDev, addDevices, addKernel, addImageEtc, addMounts}
	}
	for _, step := range steps {
		if err := step(root, spec); err != nil {
			return err
		}
	}
	return switchRoot(root)
}

// switchRoot makes root the root of the mount namespace and detaches the machine's root.
func switchRoot(root string) error {
	old := filepath.Join(root, ".old")
	if err := os.Mkdir(old, 0o700); err != nil {
		return fmt.Errorf("switch root: %w", err)
	}
	if err := unix.PivotRoot(root, old); err != nil {
		return fmt.Errorf("switch root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("switch root: %w", err)
	}
	if err := unix.Unmount("/.old", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("release the machine's root: %w", err)
	}
	if err := os.Remove("/.old"); err != nil {
		return fmt.Errorf("release the machine's root: %w", err)
	}
	return nil
}

func addSystem(root string, _ containerSpec) error {
	for _, name := range systemDirs {
		source := "/" + name
		info, err := os.Lstat(source)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("add %s: %w", source, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if err := copyLink(source, filepath.Join(root, name)); err != nil {
				return err
			}
			continue
		}
		if err := bind(root, mountSpec{Source: source, Target: source, ReadOnly: true, Recursive: true}); err != nil {
			return err
		}
	}
	return addLocal(root)
}

// addLocal replaces the program directories of /usr/local, because images keep their programs there. Other directories
// of the machine's /usr/local, such as libraries, stay visible.
func addLocal(root string) error {
	const local = "/usr/local"
	entries, err := os.ReadDir(local)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("add %s: %w", local, err)
	}
	if err := unix.Mount("tmpfs", filepath.Join(root, local), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		"mode=0755"); err != nil {
		return fmt.Errorf("mount %s: %w", local, err)
	}
	for _, entry := range entries {
		path := filepath.Join(local, entry.Name())
		switch {
		case entry.Name() == "bin", entry.Name() == "sbin":
			err = os.Mkdir(filepath.Join(root, path), 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			err = copyLink(path, filepath.Join(root, path))
		case entry.IsDir():
			err = bind(root, mountSpec{Source: path, Target: path, ReadOnly: true, Recursive: true})
		}
		if err != nil {
			return fmt.Errorf("add %s: %w", path, err)
		}
	}
	return nil
}

func addEtc(root string, spec containerSpec) error {
	for _, name := range etcEntries {
		if err := copyTree(filepath.Join("/etc", name), filepath.Join(root, "etc", name)); err != nil {
			return fmt.Errorf("copy /etc/%s: %w", name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "etc", "hostname"), []byte(spec.Hostname+"\n"), 0o644); err != nil {
		return fmt.Errorf("write /etc/hostname: %w", err)
	}
	return nil
}

func addDevices(root string, _ containerSpec) error {
	for _, name := range devices {
		device := "/dev/" + name
		if _, err := os.Stat(device); err != nil {
			continue
		}
		if err := bind(root, mountSpec{Source: device, Target: device}); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, filepath.Join(root, "dev", name)); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	return makeScratch(root, "dev/shm")
}

// addKernel mounts the machine's /proc and /sys, because the container shares its process IDs and network.
func addKernel(root string, _ containerSpec) error {
	if err := bind(root, mountSpec{Source: "/proc", Target: "/proc", Recursive: true}); err != nil {
		return err
	}
	return bind(root, mountSpec{Source: "/sys", Target: "/sys", ReadOnly: true})
}

func addScratch(root string, _ containerSpec) error {
	for _, dir := range []string{"tmp", "var/tmp"} {
		if err := makeScratch(root, dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{"run", "var/log", "var/lib", "opt"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("make /%s: %w", dir, err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "root"), 0o700); err != nil {
		return fmt.Errorf("make /root: %w", err)
	}
	return os.Symlink("/run", filepath.Join(root, "var", "run"))
}

func makeScratch(root, dir string) error {
	path := filepath.Join(root, dir)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make /%s: %w", dir, err)
	}
	if err := os.Chmod(path, 0o777|fs.ModeSticky); err != nil {
		return fmt.Errorf("make /%s: %w", dir, err)
	}
	return nil
}

func addMounts(root string, spec containerSpec) error {
	for _, mount := range spec.Mounts {
		if err := bind(root, mount); err != nil {
			return err
		}
	}
	return nil
}

// bind mounts a file or directory of the machine inside root.
func bind(root string, mount mountSpec) error {
	info, err := os.Stat(mount.Source)
	if err != nil {
		return fmt.Errorf("mount %s: %w", mount.Target, err)
	}
	target, err := mountPoint(root, mount.Target, info.IsDir())
	if err != nil {
		return fmt.Errorf("mount %s: %w", mount.Target, err)
	}
	flags := uintptr(unix.MS_BIND)
	if mount.Recursive {
		flags |= unix.MS_REC
	}
	if err := unix.Mount(mount.Source, target, "", flags, ""); err != nil {
		return fmt.Errorf("mount %s: %w", mount.Target, err)
	}
	if !mount.ReadOnly {
		return nil
	}
	// A remount must keep the existing flags of the file system, or an unprivileged namespace may not do it.
	var stat unix.Statfs_t
	if err := unix.Statfs(target, &stat); err != nil {
		return fmt.Errorf("mount %s read-only: %w", mount.Target, err)
	}
	kept := uintptr(stat.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME |
		unix.MS_NODIRATIME | unix.MS_RELATIME)
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, ""); err != nil {
		return fmt.Errorf("mount %s read-only: %w", mount.Target, err)
	}
	return nil
}

// mountPoint creates the missing parts of target below root and returns the path. It resolves links inside root:
// /var/run leads to the root's /run, not the machine's.
func mountPoint(root, target string, dir bool) (string, error) {
	inside, err := resolveInside(root, target)
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, inside)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if dir {
		return path, explainReadOnly(os.MkdirAll(path, 0o755))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", explainReadOnly(err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return "", explainReadOnly(err)
	}
	return path, file.Close()
}

func explainReadOnly(err error) error {
	if errors.Is(err, unix.EROFS) {
		return fmt.Errorf("its directory belongs to this machine, and pods share it read-only: %w", err)
	}
	return err
}

// resolveInside resolves the links of path as if root were the root directory. It keeps parts that do not exist.
func resolveInside(root, path string) (string, error) {
	const maxLinks = 40
	rest, done := filepath.Clean("/"+path), "/"
	for links := 0; rest != "/" && rest != ""; {
		name, after, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		next := filepath.Join(done, name)
		rest = "/" + after
		link, err := os.Readlink(filepath.Join(root, next))
		if err != nil {
			done = next // no link, or it does not exist yet
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("too many links in %s", path)
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(done, link)
		}
		rest, done = filepath.Clean(filepath.Join("/", link, after)), "/"
	}
	return done, nil
}

// copyTree copies files, directories and links. It ignores a source that does not exist.
func copyTree(source, target string) error {
	info, err := os.Lstat(source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return copyLinkOrFile(source, target)
	case info.IsDir():
		entries, err := os.ReadDir(source)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		for _, entry := range entries {
			if err := copyTree(filepath.Join(source, entry.Name()), filepath.Join(target, entry.Name())); err != nil {
				return err
			}
		}
		return nil
	case info.Mode().IsRegular():
		content, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, info.Mode().Perm())
	}
	return nil
}

// copyLinkOrFile keeps links into /usr and relative links inside /etc. It copies the targets of other links: a
// resolv.conf that links into /run would be broken inside the container.
func copyLinkOrFile(source, target string) error {
	resolved, err := filepath.EvalSymlinks(source)
	if err != nil {
		return nil //nolint:nilerr // a dangling link leads nowhere inside either
	}
	if strings.HasPrefix(resolved, "/usr/") || strings.HasPrefix(resolved, filepath.Dir(source)+"/") {
		return copyLink(source, target)
	}
	return copyTree(resolved, target)
}

func copyLink(source, target string) error {
	link, err := os.Readlink(source)
	if err != nil {
		return fmt.Errorf("copy link: %w", err)
	}
	if err := os.Symlink(link, target); err != nil {
		return fmt.Errorf("copy link: %w", err)
	}
	return nil
}
