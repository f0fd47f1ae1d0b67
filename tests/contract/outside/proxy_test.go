package outside

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	mainModule = "github.com/drover-io/drover"
	apisModule = mainModule + "/pkg/apis"
)

// published is the time of the versions. It is part of a version's name, and must not change while the content stays
// the same.
const published = "2006-01-02T15:04:05Z"

// proxy is a module proxy in a directory, with the modules of the repository that other modules import.
type proxy struct {
	// url is the value for GOPROXY.
	url string
	// version is the version of both modules. It is derived from their content, so that no cache confuses two states of
	// the tree.
	version string
}

// newProxy publishes the files of the work tree that git knows or would add. When the test ends, it removes the
// unpacked modules from the module cache.
func newProxy(t *testing.T, root string) proxy {
	t.Helper()
	files, nested := workTree(t, root)
	modules := map[string][]string{
		mainModule: slices.DeleteFunc(slices.Clone(files), func(file string) bool {
			return slices.ContainsFunc(nested, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
		}),
	}
	for _, file := range files {
		if strings.HasPrefix(file, "pkg/apis/") {
			modules[apisModule] = append(modules[apisModule], file)
		}
	}
	dir := t.TempDir()
	p := proxy{url: "file://" + filepath.ToSlash(dir), version: "v0.0.1-0.20060102150405-" +
		sum(t, root, slices.Concat(modules[mainModule], modules[apisModule]))}
	p.publish(t, dir, mainModule, root, root, modules[mainModule])
	p.publish(t, dir, apisModule, root, filepath.Join(root, "pkg", "apis"), modules[apisModule])
	// The main module requires this unreleased version of its sibling. The go command may read its requirements, but
	// selects the newer version that the outside modules require.
	write(t, filepath.Join(dir, apisModule, "@v", "v0.0.0.mod"), read(t, filepath.Join(root, "pkg", "apis", "go.mod")))
	write(t, filepath.Join(dir, apisModule, "@v", "v0.0.0.info"), info(t, "v0.0.0"))
	t.Cleanup(func() { p.forget(t) })
	return p
}

// workTree lists the files below root, and the directories of modules in it. Like a release, it excludes generated and
// ignored files.
func workTree(t *testing.T, root string) (files, nested []string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z", "--cached", "--others",
		"--exclude-standard")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the files of the work tree: %v", err)
	}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if found, err := os.Lstat(filepath.Join(root, file)); err != nil || !found.Mode().IsRegular() {
			continue // deleted but not committed, or a link, which modules cannot contain
		}
		files = append(files, file)
		if dir := path.Dir(file); dir != "." && path.Base(file) == "go.mod" {
			nested = append(nested, dir)
		}
	}
	if !slices.Contains(nested, "pkg/apis") {
		t.Fatalf("pkg/apis is not a separate module; modules are in %v", nested)
	}
	return files, nested
}

// sum returns the end of a version: twelve digits derived from names and contents.
func sum(t *testing.T, root string, files []string) string {
	t.Helper()
	hash := sha256.New()
	for _, file := range files {
		content := sha256.Sum256(read(t, filepath.Join(root, file)))
		fmt.Fprintf(hash, "%x %s\n", content, file)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12]
}

func info(t *testing.T, version string) []byte {
	t.Helper()
	out, err := json.Marshal(map[string]string{"Version": version, "Time": published})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// publish writes the files that the go command requests from a proxy (`go help goproxy`). File names are relative to
// root.
func (p proxy) publish(t *testing.T, dir, module, root, moduleRoot string, files []string) {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, file := range files {
		full := filepath.Join(root, file)
		inside, err := filepath.Rel(moduleRoot, full)
		if err != nil {
			t.Fatal(err)
		}
		entry, err := w.Create(module + "@" + p.version + "/" + filepath.ToSlash(inside))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write(read(t, full)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	versions := filepath.Join(dir, module, "@v")
	write(t, filepath.Join(versions, "list"), []byte(p.version+"\n"))
	write(t, filepath.Join(versions, p.version+".info"), info(t, p.version))
	write(t, filepath.Join(versions, p.version+".mod"), read(t, filepath.Join(moduleRoot, "go.mod")))
	write(t, filepath.Join(versions, p.version+".zip"), archive.Bytes())
}

// forget removes the versions from the module cache, because no later run uses them.
func (p proxy) forget(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Errorf("find the module cache: %v", err)
		return
	}
	cache := strings.TrimSpace(string(out))
	for _, module := range []string{mainModule, apisModule} {
		unpacked := filepath.Join(cache, module+"@"+p.version)
		_ = filepath.WalkDir(unpacked, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				return os.Chmod(name, 0o700) // the go command removes write permission
			}
			return nil
		})
		unwanted := []string{unpacked}
		for _, version := range []string{p.version, "v0.0.0"} {
			downloads, err := filepath.Glob(filepath.Join(cache, "cache", "download", filepath.FromSlash(module), "@v",
				version+".*"))
			if err != nil {
				t.Error(err)
			}
			unwanted = append(unwanted, downloads...)
		}
		for _, name := range unwanted {
			if err := os.RemoveAll(name); err != nil {
				t.Errorf("copy %s %s from the module cache: %v", module, p.version, err)
			}
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
