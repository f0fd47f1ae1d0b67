package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/drover-io/drover/tests/testbed/distro"
)

// installers is the folder of the installer images. Those of the stand-in are built from the programs in the parent
// folder, and rigs with the same programs share them. A rig with real distributions has a folder of its own.
func (o Options) installers(releases []keptRelease) string {
	if len(releases) > 0 {
		return filepath.Join(o.distributionDir(), "installers")
	}
	return filepath.Join(o.Bin, "installers")
}

// ensureImages writes the installer images of the rig's versions, unless images of the same programs exist. A runtime
// with a real release has no stand-in.
func (o Options) ensureImages(releases []keptRelease) error {
	versions := slices.DeleteFunc(slices.Clone(o.Versions), func(version string) bool {
		return slices.ContainsFunc(releases, func(r keptRelease) bool { return r.Runtime == distro.RuntimeOf(version) })
	})
	if len(versions) == 0 {
		return nil
	}
	program, kube := filepath.Join(o.Bin, "drover-distro"), filepath.Join(o.Bin, "drover-kube")
	sum, err := fingerprint(program, kube)
	if err != nil {
		return err
	}
	dir := o.installers(releases)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make folder of installer images: %w", err)
	}
	if err := o.Owner.take(dir); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open lock of installer images: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock installer images: %w", err)
	}
	for _, version := range versions {
		mark := filepath.Join(dir, "."+version)
		if have, err := os.ReadFile(mark); err == nil && string(have) == sum {
			continue
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read image mark: %w", err)
		}
		if _, err := distro.BuildImage(dir, distro.RuntimeOf(version), version, program, kube); err != nil {
			return err
		}
		if err := os.WriteFile(mark, []byte(sum), 0o600); err != nil {
			return fmt.Errorf("write image mark: %w", err)
		}
	}
	return nil
}

func fingerprint(files ...string) (string, error) {
	sum := sha256.New()
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("read program: %w", err)
		}
		_, err = io.Copy(sum, file)
		_ = file.Close()
		if err != nil {
			return "", fmt.Errorf("read program: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
