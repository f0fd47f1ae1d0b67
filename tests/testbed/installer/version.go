package installer

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// askTimeout limits how long a program may take to print its version.
const askTimeout = 30 * time.Second

// versionWord matches the version of a distribution.
var versionWord = regexp.MustCompile(`\bv\d+\.\d+\.\d+\S*\+(?:k3s|rke2r)\d[0-9A-Za-z.-]*`)

// versionOfProgram returns the version that a program, or the program bin/rke2 in an archive, prints. File names of
// releases do not contain the version.
func versionOfProgram(path string) (string, error) {
	folder, err := os.MkdirTemp("", "drover-installer-")
	if err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "program") // a download is not executable
	if err := extractProgram(path, program); err != nil {
		return "", fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Dir, cmd.Env = folder, []string{"HOME=" + folder, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w: %s", filepath.Base(path), err, strings.TrimSpace(string(out)))
	}
	return parseVersion(filepath.Base(path), string(out))
}

func parseVersion(program, output string) (string, error) {
	if version := versionWord.FindString(output); version != "" {
		return version, nil
	}
	return "", fmt.Errorf("%s --version prints no version as v1.36.2+k3s1: %q", program, output)
}

// extractProgram copies a program out of a release file.
func extractProgram(path, target string) error {
	if !strings.HasSuffix(path, ".tar.gz") {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		return write(target, file)
	}
	plain, err := openTar(path)
	if err != nil {
		return err
	}
	defer plain.Close()
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("it contains no bin/rke2")
		}
		if err != nil {
			return err
		}
		if strings.TrimPrefix(filepath.Clean(header.Name), "./") == "bin/rke2" {
			return write(target, archive)
		}
	}
}

func write(target string, content io.Reader) error {
	file, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// openTar opens a tar archive that may be compressed with gzip.
func openTar(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(path, "gz") {
		return file, nil
	}
	plain, err := gzip.NewReader(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return compressed{plain, file}, nil
}

type compressed struct {
	*gzip.Reader
	file *os.File
}

func (c compressed) Close() error { return errors.Join(c.Reader.Close(), c.file.Close()) }
