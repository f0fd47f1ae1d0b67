package agent

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

const (
	defaultFileMode = "0600"
	defaultDirMode  = "0755"
)

// writeFiles brings the files of a plan about, in order. The error names index and path, never content.
func writeFiles(files []plan.File) error {
	for i, file := range files {
		if err := writeFile(file); err != nil {
			return fmt.Errorf("files[%d] %s: %w", i, file.Path, err)
		}
	}
	return nil
}

func writeFile(file plan.File) error {
	if file.Path == "" {
		return errors.New("path must be set")
	}
	switch {
	case file.Action == plan.FileActionDelete && file.Directory:
		return os.RemoveAll(file.Path)
	case file.Action == plan.FileActionDelete:
		if err := os.Remove(file.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	case file.Directory:
		return writeDirectory(file)
	}
	content, err := base64.StdEncoding.DecodeString(file.Content)
	if err != nil {
		return errors.New("content must be standard base64")
	}
	mode, err := parseMode(file.Permissions, defaultFileMode)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file.Path), 0o755); err != nil {
		return err
	}
	return replaceFile(file.Path, content, mode, file.UID, file.GID)
}

func writeDirectory(file plan.File) error {
	mode, err := parseMode(file.Permissions, defaultDirMode)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(file.Path, 0o755); err != nil {
		return err
	}
	return setMeta(file.Path, mode, file.UID, file.GID)
}

// replaceFile writes content so that a reader sees the old or the new file, never a part, and a crash leaves either. A file
// that already has the content keeps its inode and its time of change. Where the directory entry cannot be replaced, as for
// a mounted file, the content is written in place.
func replaceFile(path string, content []byte, mode os.FileMode, uid, gid int) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return setMeta(path, mode, uid, gid)
	}
	uid, gid = keepOwner(path, uid, gid)
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".drover-tmp")
	if err := writeSynced(temp, content); err != nil {
		os.Remove(temp)
		return err
	}
	err := setMeta(temp, mode, uid, gid)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		return nil
	}
	os.Remove(temp)
	if !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.EXDEV) {
		return err
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	return setMeta(path, mode, uid, gid)
}

// keepOwner resolves -1, which leaves the owner alone: the new file gets the owner of the one it replaces.
func keepOwner(path string, uid, gid int) (newUID, newGID int) {
	info, err := os.Stat(path)
	if err != nil {
		return uid, gid
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		if uid < 0 {
			uid = int(stat.Uid)
		}
		if gid < 0 {
			gid = int(stat.Gid)
		}
	}
	return uid, gid
}

func writeSynced(path string, content []byte) error {
	os.Remove(path) // a leftover could be a link
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// setMeta sets owner and mode, the owner only where it differs: that needs no privilege. Owner first, because a change of
// owner clears the setuid bits.
func setMeta(path string, mode os.FileMode, uid, gid int) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || (uid >= 0 && int(stat.Uid) != uid) || (gid >= 0 && int(stat.Gid) != gid) {
		if err := os.Chown(path, uid, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

// parseMode reads octal permissions, including the setuid, setgid and sticky bits.
func parseMode(text, otherwise string) (os.FileMode, error) {
	if text == "" {
		text = otherwise
	}
	n, err := strconv.ParseUint(text, 8, 12)
	if err != nil {
		return 0, errors.New("permissions must be an octal number such as \"0600\"")
	}
	mode := os.FileMode(n & 0o777)
	for bit, flag := range map[uint64]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if n&bit != 0 {
			mode |= flag
		}
	}
	return mode, nil
}
