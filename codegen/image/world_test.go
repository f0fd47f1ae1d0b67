package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

const repository = "../.."

var build = Build{
	Version: "v1.2.3", Revision: "0123456789abcdef0123456789abcdef01234567", Architecture: "amd64",
	Created: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC),
}

// scratch is a folder for files that all tests share.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "image-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// program returns the path of a small static program, built once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./testdata/program")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// source returns a copy of the input of the images, with a small program in place of each large one.
func source(t *testing.T) string {
	t.Helper()
	small, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"Dockerfile", "LICENSE"} {
		content, err := os.ReadFile(filepath.Join(repository, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	programs := filepath.Join(dir, "programs")
	if err := os.Mkdir(programs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, image := range images {
		for _, name := range image.Programs {
			if err := os.Symlink(small, filepath.Join(programs, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := WriteRoots(images, dir, programs, build); err != nil {
		t.Fatal(err)
	}
	return dir
}

// assembled is the content of a layout.
type assembled struct {
	dir    string
	digest v1.Hash
	config v1.Config
	file   *v1.ConfigFile
	files  map[string]*tar.Header
	texts  map[string]string
	others []v1.Image
}

// shared is the result for most tests, because assembling takes a second.
var shared map[string]assembled

func assembleOnce(t *testing.T) map[string]assembled {
	t.Helper()
	if shared == nil {
		shared = assembleAll(t, filepath.Join(scratch, "layouts"))
	}
	return shared
}

func assembleAll(t *testing.T, to string) map[string]assembled {
	t.Helper()
	from := source(t)
	out := map[string]assembled{}
	for _, image := range images {
		digest, err := WriteLayout(from, to, image, build)
		if err != nil {
			t.Fatal(err)
		}
		out[image.Name] = read(t, filepath.Join(to, image.Name), digest)
	}
	return out
}

func read(t *testing.T, dir string, digest v1.Hash) assembled {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	out := assembled{dir: dir, digest: digest, files: map[string]*tar.Header{}, texts: map[string]string{}}
	for _, descriptor := range manifest.Manifests {
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if descriptor.Digest != digest {
			out.others = append(out.others, image)
			continue
		}
		if out.file, err = image.ConfigFile(); err != nil {
			t.Fatal(err)
		}
		out.config = out.file.Config
		out.extract(t, image)
	}
	if out.file == nil {
		t.Fatalf("%s has no image %s", dir, digest)
	}
	return out
}

func (a *assembled) extract(t *testing.T, image v1.Image) {
	t.Helper()
	stream := mutate.Extract(image)
	defer stream.Close()
	for archive := tar.NewReader(stream); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		a.files[filepath.Clean(header.Name)], a.texts[filepath.Clean(header.Name)] = header, string(content)
	}
}
