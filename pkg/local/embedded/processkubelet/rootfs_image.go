package processkubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// runtimeDirs are the directories in which this node adds files to an image. A link in their place could redirect those
// files to the machine.
var runtimeDirs = []string{"dev", "etc", "proc", "sys"}

// mountImage mounts the files of an image below dir with a tmpfs for writes. It returns the path of the mount.
func mountImage(dir, image string) (string, error) {
	for _, name := range []string{"image", "changes", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return "", fmt.Errorf("mount image: %w", err)
		}
	}
	if err := bind(dir, mountSpec{Source: image, Target: "image", ReadOnly: true}); err != nil {
		return "", err
	}
	root := filepath.Join(dir, "root")
	// Mount options have no room for long paths, so these are relative.
	if err := os.Chdir(dir); err != nil {
		return "", fmt.Errorf("mount image: %w", err)
	}
	options := "lowerdir=image,upperdir=changes,workdir=work"
	if err := unix.Mount("overlay", root, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return "", fmt.Errorf("mount image as overlay: %w", err)
	}
	for _, name := range runtimeDirs {
		info, err := os.Lstat(filepath.Join(root, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", fmt.Errorf("inspect the image's /%s: %w", name, err)
		case !info.IsDir():
			return "", fmt.Errorf("the image's /%s must be a directory", name)
		}
	}
	return root, nil
}

// addImageDev hides the image's /dev, because devices are the machine's.
func addImageDev(root string, _ containerSpec) error {
	dev := filepath.Join(root, "dev")
	if err := os.MkdirAll(dev, 0o755); err != nil {
		return fmt.Errorf("make /dev: %w", err)
	}
	if err := unix.Mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=0755"); err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}
	return nil
}

// addImageEtc adds the files that every runtime adds: the machine's resolver configuration and the pod's host name.
func addImageEtc(root string, spec containerSpec) error {
	files := map[string][]byte{"hostname": []byte(spec.Hostname + "\n")}
	for _, name := range []string{"hosts", "resolv.conf"} {
		if content, err := os.ReadFile(filepath.Join("/etc", name)); err == nil {
			files[name] = content
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		return fmt.Errorf("make /etc: %w", err)
	}
	etc, err := os.OpenRoot(filepath.Join(root, "etc"))
	if err != nil {
		return fmt.Errorf("open /etc: %w", err)
	}
	defer func() { _ = etc.Close() }()
	for name, content := range files {
		if err := etc.RemoveAll(name); err != nil {
			return fmt.Errorf("replace /etc/%s: %w", name, err)
		}
		if err := etc.WriteFile(name, content, 0o644); err != nil {
			return fmt.Errorf("write /etc/%s: %w", name, err)
		}
	}
	return nil
}
