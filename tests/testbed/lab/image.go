package lab

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// imageBuild is the script that builds or finds the machine image. The image's name contains a hash of the script.
//
//go:embed image/build
var imageBuild []byte

// imageCloudInit is the script that builds or finds the variant of a machine image with cloud-init.
//
//go:embed image/cloud-init
var imageCloudInit []byte

// EnsureImage returns the folder of the machine image below cache. It builds the image the first time and writes
// progress to log.
func EnsureImage(ctx context.Context, cache string, log io.Writer) (string, error) {
	return runImageScript(ctx, imageBuild, cache, log)
}

// EnsureCloudInitImage returns the folder of the variant in which Debian's cloud-init sets a machine up as in EC2. The
// variant boots slower, so only labs that need cloud-init use it.
func EnsureCloudInitImage(ctx context.Context, cache string, log io.Writer) (string, error) {
	base, err := EnsureImage(ctx, cache, log)
	if err != nil {
		return "", err
	}
	return runImageScript(ctx, imageCloudInit, base, log)
}

// runImageScript runs a script that prints the folder of an image.
func runImageScript(ctx context.Context, content []byte, argument string, log io.Writer) (string, error) {
	folder, err := os.MkdirTemp("", "drover-image-")
	if err != nil {
		return "", fmt.Errorf("make folder for image script: %w", err)
	}
	defer os.RemoveAll(folder)
	script := filepath.Join(folder, "build")
	if err := os.WriteFile(script, content, 0o600); err != nil {
		return "", fmt.Errorf("write image script: %w", err)
	}
	var image bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", script, argument)
	cmd.Stdout, cmd.Stderr = &image, log
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build machine image: %w", err)
	}
	return strings.TrimSpace(image.String()), nil
}
