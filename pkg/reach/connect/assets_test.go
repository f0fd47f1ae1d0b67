package connect

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Every install script contains the checksum of the agent, which takes a second to compute.
func TestAssets_ChecksumIsComputedOncePerFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ownAgent())
	counted := 0
	a := newAssets(dir, path)
	a.known.sum = func(r io.Reader) string { counted++; return readerChecksum(r) }
	write := func(name, content string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		name   string
		change func()
		want   int
	}{
		{"the first file", func() { write(path, "one", noon) }, 1},
		{"the same file", func() {}, 1},
		{"a later modification", func() { write(path, "two", noon.Add(time.Second)) }, 2},
		{"another size", func() { write(path, "three", noon.Add(time.Second)) }, 3},
		{"another inode", func() {
			write(path+".new", "seven", noon.Add(time.Second))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}, 4},
		{"the same file again", func() {}, 4},
	}
	for _, step := range steps {
		step.change()
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		want := readerChecksum(file)
		file.Close()
		if got, _ := a.agentChecksum(); got != want || counted != step.want {
			t.Errorf("%s: checksum %s after %d computations, want %s after %d", step.name, got, counted, want,
				step.want)
		}
	}
}
