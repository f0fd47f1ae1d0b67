package localfile_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-io/drover/pkg/local/localfile"
)

func TestWrite_ReplacesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "file")
	for _, content := range []string{"first", "second"} {
		if err := localfile.Write(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("the file contains %q, error %v, want %q", got, err, content)
		}
	}
	about, err := os.Stat(path)
	if err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v, want 0600", about.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("the folder contains %v, error %v, want the file alone", left, err)
	}
}

func TestWrite_KeepsTheOldFileOnFailure(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "directory")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := localfile.Write(path, nil); err == nil || !strings.HasPrefix(err.Error(), "write "+path) {
		t.Errorf("error %v, want one that names the file", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("the folder contains %v, error %v, want the old entry alone", left, err)
	}
}

func TestLock_ExcludesOthersUntilItIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte("a longer text of an earlier process\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := localfile.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	own := strconv.Itoa(os.Getpid())
	if content, err := os.ReadFile(path); err != nil || string(content) != own+"\n" {
		t.Errorf("the lock contains %q, error %v, want the process ID", content, err)
	}
	want := filepath.Dir(path) + " is in use by process " + own
	if _, err := localfile.Lock(path); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := localfile.Lock(path); err != nil {
		t.Errorf("a released lock is not free: %v", err)
	}
}
