package driverprogram

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// driverPrefix starts the file name of every driver (docs/wire/machines.md#driver-programs: rancher-machine looks
// drivers up by it).
const driverPrefix = "docker-machine-driver-"

var (
	elfMagic  = "\x7fELF"
	zipMagic  = "PK\x03\x04"
	gzipMagic = "\x1f\x8b"
)

func fileName(location string) string {
	if parsed, err := url.Parse(location); err == nil {
		return path.Base(parsed.Path)
	}
	return path.Base(location)
}

// driverName returns the part after the prefix up to the first "-", "_" or ".", because releases append platform and
// version.
func driverName(file string) (string, bool) {
	rest, ok := strings.CutPrefix(path.Base(file), driverPrefix)
	if !ok {
		return "", false
	}
	if i := strings.IndexAny(rest, "-_."); i >= 0 {
		rest = rest[:i]
	}
	return rest, rest != ""
}

// unpack stores the program of a download in a directory and returns the driver's name.
func unpack(download, fileName, directory string) (name string, err error) {
	magic, err := magicOf(download)
	if err != nil {
		return "", err
	}
	switch {
	case strings.HasPrefix(magic, elfMagic):
		name, ok := driverName(fileName)
		if !ok {
			return "", fmt.Errorf("spec.url: the program's file name is %q, want %sNAME", fileName, driverPrefix)
		}
		file, err := os.Open(download)
		if err != nil {
			return "", fmt.Errorf("read the driver: %w", err)
		}
		defer func() { _ = file.Close() }()
		return name, place(file, directory, name)
	case strings.HasPrefix(magic, zipMagic):
		return fromZip(download, directory)
	case strings.HasPrefix(magic, gzipMagic):
		return fromTar(download, directory)
	default:
		return "", errors.New("spec.url: the download must be an ELF program, a zip or a gzipped tar")
	}
}

func magicOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read the driver: %w", err)
	}
	defer func() { _ = f.Close() }()
	start := make([]byte, len(elfMagic))
	n, err := io.ReadFull(f, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the driver: %w", err)
	}
	return string(start[:n]), nil
}

func fromZip(download, directory string) (name string, err error) {
	archive, err := zip.OpenReader(download)
	if err != nil {
		return "", fmt.Errorf("spec.url: open the zip: %w", err)
	}
	defer func() { _ = archive.Close() }()
	for _, member := range archive.File {
		name, ok := driverName(member.Name)
		if !ok || member.FileInfo().IsDir() {
			continue
		}
		content, err := member.Open()
		if err != nil {
			return "", fmt.Errorf("spec.url: read the zip: %w", err)
		}
		err = place(content, directory, name)
		_ = content.Close()
		if !errors.Is(err, errNoProgram) {
			return name, err
		}
	}
	return "", fmt.Errorf("spec.url: the zip has no program named %sNAME", driverPrefix)
}

func fromTar(download, directory string) (name string, err error) {
	file, err := os.Open(download)
	if err != nil {
		return "", fmt.Errorf("read the driver: %w", err)
	}
	defer func() { _ = file.Close() }()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return "", fmt.Errorf("spec.url: open the tar: %w", err)
	}
	for archive := tar.NewReader(plain); ; {
		member, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("spec.url: the tar has no program named %sNAME", driverPrefix)
		}
		if err != nil {
			return "", fmt.Errorf("spec.url: read the tar: %w", err)
		}
		name, ok := driverName(member.Name)
		if !ok || member.Typeflag != tar.TypeReg {
			continue
		}
		if err := place(archive, directory, name); !errors.Is(err, errNoProgram) {
			return name, err
		}
	}
}

// errNoProgram means that a file has a driver's name but is no program, such as its checksum.
var errNoProgram = errors.New("spec.url: the file is not an ELF program")

// place writes a program under the name by which rancher-machine finds it.
func place(content io.Reader, directory, name string) error {
	target := filepath.Join(directory, driverPrefix+name)
	if err := save(content, target); err != nil {
		return err
	}
	magic, err := magicOf(target)
	if err != nil {
		return err
	}
	if magic != elfMagic {
		_ = os.Remove(target)
		return errNoProgram
	}
	if err := os.Chmod(target, 0o700); err != nil {
		return fmt.Errorf("store the driver: %w", err)
	}
	return nil
}
