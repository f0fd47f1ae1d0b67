package agent

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

// mallory is an attacker with an account on the machine.
const mallory = 4242

// shared returns a world-writable directory, like /tmp.
func shared(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("the test needs root to act as another user")
	}
	dir := filepath.Join(t.TempDir(), "shared")
	check(t, os.Mkdir(dir, 0o700))
	check(t, os.Chmod(dir, 0o777|os.ModeSticky))
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func hers(t *testing.T, path string) {
	t.Helper()
	check(t, os.Lchown(path, mallory, mallory))
}

// victim returns a directory with a file, and a function that checks that both are unchanged.
func victim(t *testing.T) (dir string, unharmed func()) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "victim")
	check(t, os.Mkdir(dir, 0o750))
	check(t, os.WriteFile(filepath.Join(dir, "file"), []byte("victim"), 0o640))
	return dir, func() {
		t.Helper()
		checkFileIs(t, filepath.Join(dir, "file"), "victim", 0o640)
		if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|0o750 {
			t.Errorf("the directory has mode %v, %v", info.Mode(), err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("the directory contains %v, %v", entries, err)
		}
	}
}

func TestWriteFiles_AttacksInASharedDirectory(t *testing.T) {
	const same = "same content"
	for name, lay := range map[string]func(t *testing.T, path, victim string){
		"link to a file of root": func(t *testing.T, path, victim string) {
			check(t, os.Symlink(filepath.Join(victim, "file"), path))
			hers(t, path)
		},
		"link to a missing file": func(t *testing.T, path, victim string) {
			check(t, os.Symlink(filepath.Join(victim, "new"), path))
			hers(t, path)
		},
		"file that another user may read": func(t *testing.T, path, _ string) {
			check(t, os.WriteFile(path, []byte("bait"), 0o644))
			hers(t, path)
		},
		"file with the right content, opened by another user": func(t *testing.T, path, _ string) {
			check(t, os.WriteFile(path, []byte(same), 0o600))
			hers(t, path)
		},
		"file with the right content, readable by all users": func(t *testing.T, path, _ string) {
			check(t, os.WriteFile(path, []byte(same), 0o600))
			check(t, os.Chmod(path, 0o666))
		},
		"pipe without a writer": func(t *testing.T, path, _ string) {
			check(t, syscall.Mkfifo(path, 0o600))
			hers(t, path)
		},
		"directory at the temporary path": func(t *testing.T, path, _ string) {
			temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".drover-tmp")
			check(t, os.MkdirAll(filepath.Join(temp, "sub"), 0o700))
			hers(t, temp)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(shared(t), "file")
			dir, unharmed := victim(t)
			lay(t, path, dir)
			before, _ := os.Lstat(path)
			done := make(chan error, 1)
			go func() { done <- writeFiles([]plan.File{{Path: path, Content: b64(same), UID: -1, GID: -1}}) }()
			select {
			case err := <-done:
				check(t, err)
			case <-time.After(20 * time.Second):
				t.Fatal("hangs")
			}
			unharmed()
			checkFileIs(t, path, same, 0o600)
			after, err := os.Lstat(path)
			check(t, err)
			if owner := after.Sys().(*syscall.Stat_t).Uid; owner != 0 || after.Mode() != 0o600 {
				t.Errorf("the file belongs to %d and is %v", owner, after.Mode())
			}
			if before != nil && os.SameFile(before, after) {
				t.Error("the file of the other user was kept")
			}
			if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
				t.Errorf("remaining files: %v", entries)
			}
		})
	}
}

// TestWriteFiles_LinkedDirectoryOfAnotherUser: nothing changes behind an attacker's link in the path.
func TestWriteFiles_LinkedDirectoryOfAnotherUser(t *testing.T) {
	for name, file := range map[string]plan.File{
		"write a file":                {Path: "link/new", Content: b64("secret")},
		"make a directory":            {Path: "link/new", Directory: true},
		"remove a file":               {Path: "link/file", Action: plan.FileActionDelete},
		"remove a tree":               {Path: "link/file", Action: plan.FileActionDelete, Directory: true},
		"set the mode of a directory": {Path: "link", Directory: true, Permissions: "0777"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := shared(t)
			dir, unharmed := victim(t)
			check(t, os.Symlink(dir, filepath.Join(folder, "link")))
			hers(t, filepath.Join(folder, "link"))
			file.Path = filepath.Join(folder, file.Path)
			if err := writeFiles([]plan.File{file}); err == nil ||
				!strings.HasPrefix(err.Error(), "files[0] "+file.Path) {
				t.Errorf("err = %v", err)
			}
			unharmed()
		})
	}
}

func TestWriteFiles_LinksOfTheAgentsUser(t *testing.T) {
	dir := t.TempDir()
	file := func(path, content string) plan.File {
		return plan.File{Path: filepath.Join(dir, path), Content: b64(content), UID: -1, GID: -1}
	}
	check(t, os.MkdirAll(filepath.Join(dir, "data", "etc"), 0o750))
	for link, target := range map[string]string{
		"absolute": filepath.Join(dir, "data"), "relative": "data/./etc", "up": "data/etc/../etc", "chain": "relative",
		"nowhere": "data/made/file", "loop": "loop",
	} {
		check(t, os.Symlink(target, filepath.Join(dir, link)))
	}
	check(t, writeFiles([]plan.File{
		file("absolute/etc/a", "a"), file("relative/b", "b"), file("up/c", "c"), file("chain/d", "d"),
		file("nowhere", "e"), file("data/../f", "f"),
		{Path: filepath.Join(dir, "chain"), Directory: true, Permissions: "0700", UID: -1, GID: -1},
	}))
	for path, content := range map[string]string{"data/etc/a": "a", "data/etc/b": "b", "data/etc/c": "c",
		"data/etc/d": "d", "data/made/file": "e", "f": "f"} {
		checkFileIs(t, filepath.Join(dir, path), content, 0o600)
	}
	if info, err := os.Stat(filepath.Join(dir, "data", "etc")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	if err := writeFiles([]plan.File{file("loop/x", "x")}); err == nil ||
		!strings.Contains(err.Error(), "too many levels") {
		t.Errorf("a link to itself: %v", err)
	}
	if err := writeFiles([]plan.File{{Path: "/", Content: b64("x")}}); err == nil {
		t.Error("a file in place of /")
	}
	check(t, writeFiles([]plan.File{{Path: filepath.Join(dir, "absolute"), Action: plan.FileActionDelete,
		Directory: true}}))
	checkFileIs(t, filepath.Join(dir, "data", "etc", "a"), "a", 0o600) // the link is removed, not its target
}

// TestWriteFiles_MountedFileGetsItsModeFirst: a file that is written in place is never open to users that its final
// mode excludes.
func TestWriteFiles_MountedFileGetsItsModeFirst(t *testing.T) {
	dir := t.TempDir()
	path, source := filepath.Join(dir, "file"), filepath.Join(dir, "source")
	for _, name := range []string{path, source} {
		check(t, os.WriteFile(name, []byte("public"), 0o644))
	}
	if err := syscall.Mount(source, path, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	defer func() { check(t, syscall.Unmount(path, 0)) }()
	events := changesOf(t, source)
	check(t, writeFiles([]plan.File{{Path: path, Content: b64("secret"), Permissions: "0600", UID: -1, GID: -1}}))
	checkFileIs(t, source, "secret", 0o600)
	if got := events(); len(got) == 0 || got[0] != "mode" {
		t.Errorf("order of changes: %v; the mode must come first", got)
	}

	events = changesOf(t, source)
	check(t, writeFiles([]plan.File{{Path: path, Content: b64("public again"), Permissions: "0644", UID: -1, GID: -1}}))
	checkFileIs(t, source, "public again", 0o644)
	if got := events(); got[len(got)-1] != "mode" {
		t.Errorf("order of changes: %v; the mode must come last", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("remaining files: %v, %v", entries, err)
	}
}

// changesOf returns a function that lists changes of a file's mode and content in order.
func changesOf(t *testing.T, path string) func() []string {
	t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	check(t, err)
	t.Cleanup(func() { check(t, syscall.Close(fd)) })
	_, err = syscall.InotifyAddWatch(fd, path, syscall.IN_ATTRIB|syscall.IN_MODIFY)
	check(t, err)
	return func() []string {
		buffer := make([]byte, 4096)
		n, err := syscall.Read(fd, buffer)
		check(t, err)
		var order []string
		for rest := buffer[:n]; len(rest) >= syscall.SizeofInotifyEvent; {
			mask, length := binary.NativeEndian.Uint32(rest[4:]), binary.NativeEndian.Uint32(rest[12:])
			kind := "mode"
			if mask&syscall.IN_MODIFY != 0 {
				kind = "content"
			}
			order = append(order, kind)
			rest = rest[syscall.SizeofInotifyEvent+int(length):]
		}
		return order
	}
}

// TestWriteFiles_KeepsTheOwner: -1 keeps the owner, except in a world-writable directory.
func TestWriteFiles_KeepsTheOwner(t *testing.T) {
	folder := shared(t)
	check(t, os.Chmod(folder, 0o755))
	path := filepath.Join(folder, "file")
	check(t, os.WriteFile(path, []byte("old"), 0o600))
	hers(t, path)
	var owners []uint32
	for _, content := range []string{"new", "new", "newer"} {
		check(t, writeFiles([]plan.File{{Path: path, Content: b64(content), UID: -1, GID: -1}}))
		info, err := os.Stat(path)
		check(t, err)
		owners = append(owners, info.Sys().(*syscall.Stat_t).Uid)
	}
	if diff := cmp.Diff([]uint32{mallory, mallory, mallory}, owners); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
