package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Build is the input of one run.
type Build struct {
	Version, Revision, Architecture string
	// Created is the time of the commit. The images contain no other time.
	Created time.Time
}

// Image is the name and the files of an image. The Dockerfile has its user, entrypoint and labels.
type Image struct {
	// Name is the name of its stage in the Dockerfile.
	Name string
	// Repository is its repository in a registry.
	Repository string
	// Programs are the files in /usr/local/bin.
	Programs []string
	// Account is the passwd entry for the Dockerfile's numeric user, for programs that need a name or a home.
	Account string
	// Directories are empty and belong to root. They are mount points and parents of the WORKDIR.
	Directories []string
}

// named returns the images with these names. Without names, it returns all images.
func named(names []string) ([]Image, error) {
	if len(names) == 0 {
		return images, nil
	}
	var out []Image
	for _, name := range names {
		i := slices.IndexFunc(images, func(image Image) bool { return image.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no image %q", name)
		}
		out = append(out, images[i])
	}
	return out, nil
}

// images are all images of this repository.
var images = []Image{
	{
		Name: "drover", Repository: "drover-io/drover", Programs: []string{"drover"},
		Account: "drover:x:65532:65532:Drover:/var/lib/drover:/sbin/nologin\n", Directories: []string{"var/lib"},
	},
	{
		// The paths are the mount points of Secrets in the Jobs of pkg/decide/machinejob.
		Name: "machine", Repository: "drover-io/machine", Programs: []string{"machine-entrypoint", "mkisofs",
			"rancher-machine"},
		Account:     "machine:x:1000:1000:rancher-machine:/home/machine:/sbin/nologin\n",
		Directories: []string{"etc/rancher/ssl", "home", "path/to/machine/files", "run/secrets/machine"},
	},
}

const (
	rootsDirectory    = "dist/root"
	programsDirectory = "usr/local/bin"
	sbomDirectory     = "usr/share/sbom"
	sbomSuffix        = ".cdx.json"
	authoritiesFile   = "etc/ssl/certs/ca-certificates.crt"
	licenseFile       = "usr/share/licenses/drover/LICENSE"
)

const root = "root:x:0:0:root:/root:/sbin/nologin\n"

// WriteRoots writes the files of images below dist/root in the repository. The Dockerfile copies them from there.
func WriteRoots(chosen []Image, source, programs string, build Build) error {
	for _, image := range chosen {
		dir := filepath.Join(source, rootsDirectory, image.Name)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := writeRoot(dir, source, programs, image, build); err != nil {
			return fmt.Errorf("files of %s: %w", image.Name, err)
		}
	}
	return nil
}

func writeRoot(dir, source, programs string, image Image, build Build) error {
	for _, name := range append([]string{"tmp"}, image.Directories...) {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	authorities, err := Authorities()
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(source, "LICENSE"))
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"etc/passwd": []byte(root + image.Account), authoritiesFile: authorities, licenseFile: license,
	}
	for _, name := range image.Programs {
		if err := install(filepath.Join(programs, name), filepath.Join(dir, programsDirectory, name)); err != nil {
			return err
		}
		if files[filepath.Join(sbomDirectory, name+sbomSuffix)], err = SBOM(filepath.Join(programs, name),
			build); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := write(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	return setModes(dir)
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// install copies a program. It rejects a dynamically linked program, which could not start in the image.
func install(from, to string) error {
	if err := checkStatic(from); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func checkStatic(path string) error {
	program, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("program %s: %w", path, err)
	}
	defer func() { _ = program.Close() }()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("program %s needs a dynamic linker, and the image has none: build it with CGO_ENABLED=0",
				path)
		}
	}
	return nil
}

// setModes sets modes that do not depend on the umask.
func setModes(dir string) error {
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() || filepath.Base(filepath.Dir(path)) == filepath.Base(programsDirectory) {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
	if err != nil {
		return err
	}
	return os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky)
}
