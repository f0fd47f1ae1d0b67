package distro

import (
	"archive/zip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// installK3s is the install script of a release.
//
//go:embed installer/install-k3s.sh
var installK3s string

// The files of a payload.
const (
	payloadKube    = "drover-kube"
	payloadVersion = "version"
)

// WriteRelease writes a folder as the makers of K3s publish a release: one program that contains its components, an
// install script, and an archive of container images.
func WriteRelease(dir, version, program, kube string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make release: %w", err)
	}
	if err := writeProgram(filepath.Join(dir, "k3s"), version, program, kube); err != nil {
		return fmt.Errorf("make release: %w", err)
	}
	unit := strings.NewReplacer("@RUNTIME@ server", "k3s ${INSTALL_K3S_EXEC:-server}", "@RUNTIME@", "k3s")
	script := strings.NewReplacer(
		"@UNIT@", strings.TrimSpace(unit.Replace(serverUnit)),
		"@KILLALL@", strings.TrimSpace(string(killAll(K3s).Data)),
		"@UNINSTALL@", strings.TrimSpace(string(uninstall(K3s).Data)),
	).Replace(installK3s)
	if err := os.WriteFile(filepath.Join(dir, "install.sh"), []byte(script), 0o644); err != nil {
		return fmt.Errorf("make release: %w", err)
	}
	tag, err := name.NewTag("drover.test/pause:1")
	if err != nil {
		return fmt.Errorf("make release: %w", err)
	}
	_, err = WriteArchive(filepath.Join(dir, "k3s-airgap-images-"+goruntime.GOARCH+".tar"), tag,
		[]File{{Name: "pause", Mode: 0o755}}, v1.Config{})
	return err
}

// writeProgram writes the program with its payload, a zip archive at its end. The file is not executable, like a
// download.
func writeProgram(path, version, program, kube string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := appendFile(out, program); err != nil {
		return err
	}
	archive := zip.NewWriter(out)
	entry, err := archive.CreateHeader(&zip.FileHeader{Name: payloadVersion, Method: zip.Store})
	if err != nil {
		return err
	}
	if _, err := io.WriteString(entry, version); err != nil {
		return err
	}
	if entry, err = archive.CreateHeader(&zip.FileHeader{Name: payloadKube, Method: zip.Store}); err != nil {
		return err
	}
	if err := appendFile(entry, kube); err != nil {
		return err
	}
	return errors.Join(archive.Close(), out.Close())
}

func appendFile(out io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(out, file)
	return err
}

// Payload is what a program of a release contains.
type Payload struct {
	// Version is the Kubernetes version, or "" for a program without a payload.
	Version string

	kube *zip.File
	file io.Closer
}

// OpenPayload reads the end of a program. A program without a payload is no error.
func OpenPayload(program string) (Payload, error) {
	archive, err := zip.OpenReader(program)
	if errors.Is(err, zip.ErrFormat) {
		return Payload{}, nil
	}
	if err != nil {
		return Payload{}, fmt.Errorf("read own program: %w", err)
	}
	payload := Payload{file: archive}
	for _, file := range archive.File {
		switch file.Name {
		case payloadKube:
			payload.kube = file
		case payloadVersion:
			version, err := readEntry(file)
			if err != nil {
				return Payload{}, errors.Join(err, archive.Close())
			}
			payload.Version = version
		}
	}
	return payload, nil
}

func readEntry(file *zip.File) (string, error) {
	in, err := file.Open()
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(in)
	return string(data), errors.Join(err, in.Close())
}

// Unpack writes the components to a path, unless they are there already.
func (p Payload) Unpack(kube string) error {
	if p.kube == nil {
		return nil
	}
	mark := filepath.Join(filepath.Dir(kube), "."+filepath.Base(kube)+".sum")
	sum := strconv.FormatUint(uint64(p.kube.CRC32), 16)
	if have, err := os.ReadFile(mark); err == nil && string(have) == sum {
		return nil
	}
	in, err := p.kube.Open()
	if err != nil {
		return fmt.Errorf("unpack components: %w", err)
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(kube), ".unpack-")
	if err != nil {
		return fmt.Errorf("unpack components: %w", err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o755), out.Close()); err == nil {
		err = os.Rename(out.Name(), kube)
	}
	if err != nil {
		return fmt.Errorf("unpack components: %w", errors.Join(err, os.Remove(out.Name())))
	}
	return os.WriteFile(mark, []byte(sum), 0o600)
}

// Close closes the program's file.
func (p Payload) Close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
