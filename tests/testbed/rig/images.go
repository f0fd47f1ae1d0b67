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
	"strings"

	"github.com/drover-io/drover/tests/testbed/distro"
)

// ensureImages writes the installer images of the given versions into dir unless they are there for these very programs.
func ensureImages(dir, bin string, versions []string) error {
	program, kube := filepath.Join(bin, "drover-distro"), filepath.Join(bin, "drover-kube")
	sum, err := fingerprint(program, kube)
	if err != nil {
		return err
	}
	for _, version := range versions {
		mark := filepath.Join(dir, "."+version)
		if have, err := os.ReadFile(mark); err == nil && string(have) == sum {
			continue
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read image mark: %w", err)
		}
		runtime := distro.RKE2
		if strings.Contains(version, "+k3s") {
			runtime = distro.K3s
		}
		if _, err := distro.BuildImage(dir, runtime, version, program, kube); err != nil {
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
