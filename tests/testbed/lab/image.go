package lab

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// imageBuild is the script that makes the root file system of the machines.
//
//go:embed image/build
var imageBuild []byte

// EnsureImage returns the folder of the machine image, built below cache if that was not done before. The folder's name is a
// hash of the build script, so that an edited script gives a new image. It is built in a temporary folder and then renamed: a
// folder with the final name is whole. Building takes about a minute and a half; progress goes to log.
func EnsureImage(ctx context.Context, cache string, log io.Writer) (string, error) {
	sum := sha256.Sum256(imageBuild)
	image := filepath.Join(cache, hex.EncodeToString(sum[:])[:16])
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make image cache: %w", err)
	}
	// Two runs that need the image at the same time build it once.
	lock, err := os.OpenFile(image+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fmt.Errorf("open image lock: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock image cache: %w", err)
	}
	if _, err := os.Stat(image); err == nil {
		return image, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look for image: %w", err)
	}
	script := image + ".build"
	if err := os.WriteFile(script, imageBuild, 0o700); err != nil {
		return "", fmt.Errorf("write image script: %w", err)
	}
	defer os.Remove(script)
	unfinished := image + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", fmt.Errorf("remove unfinished image: %w", err)
	}
	cmd := exec.CommandContext(ctx, script, unfinished)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build machine image: %w", err)
	}
	if err := os.Rename(unfinished, image); err != nil {
		return "", fmt.Errorf("keep image: %w", err)
	}
	return image, nil
}
