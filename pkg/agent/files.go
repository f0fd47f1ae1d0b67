package agent

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
)

const (
	defaultFileMode = "0600"
	defaultDirMode  = "0755"
)

// writeFiles applies the files of a plan in order. The error contains index and path, never content.
func writeFiles(files []plan.File) error {
	for i, file := range files {
		if err := writeFile(file); err != nil {
			return fmt.Errorf("files[%d] %s: %w", i, file.Path, err)
		}
	}
	return nil
}

func writeFile(file plan.File) error {
	switch {
	case file.Path == "":
		return errors.New("path must be set")
	case file.Action == plan.FileActionDelete:
		return deleteFile(file)
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
	return replaceFile(file.Path, content, mode, file.UID, file.GID)
}

func deleteFile(file plan.File) error {
	at, err := (&pathWalker{}).path(file.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer at.Close()
	if file.Directory {
		return at.folder.RemoveAll(at.name)
	}
	if err := at.folder.Remove(at.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func writeDirectory(file plan.File) error {
	mode, err := parseMode(file.Permissions, defaultDirMode)
	if err != nil {
		return err
	}
	at, err := (&pathWalker{create: true, follow: true}).path(file.Path)
	if err != nil {
		return err
	}
	defer at.Close()
	// Other users get no access until owner and mode are set.
	if err := at.folder.Mkdir(at.name, mode&0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	folder, err := at.enter()
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }() // it was only read
	f, err := folder.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return setMeta(f, mode, file.UID, file.GID)
}

// replaceFile writes content so that a reader, or a crash, sees either the old or the new file, never a part. The
// content is never readable to users that the mode excludes. A file that already has the content keeps its inode and
// modification time. A link is followed if it is trusted, and replaced if another user may have created it. Where the
// directory entry cannot be replaced, as for a mounted file, the content is written in place.
func replaceFile(path string, content []byte, mode os.FileMode, uid, gid int) error {
	at, err := (&pathWalker{create: true, follow: true}).path(path)
	if err != nil {
		return err
	}
	defer at.Close()
	uid, gid = at.keepOwner(uid, gid)
	if kept, err := at.keep(content, mode, uid, gid); kept || err != nil {
		return err
	}
	temp := "." + at.name + ".drover-tmp"
	err = writeNew(at.folder, temp, content, mode, uid, gid)
	if err == nil {
		err = at.folder.Rename(temp, at.name)
	}
	if err == nil {
		return syncFolder(at.folder)
	}
	_ = at.folder.RemoveAll(temp)
	if !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.EXDEV) {
		return err
	}
	// Processes that already have the file open can still read it. No other process can.
	f, err := at.open(os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	return fill(f, content, mode, uid, gid)
}

// keep leaves a file that already has the content in place, and sets owner and mode. It reports false when another user
// may have the file open for writing, or when the file has another hard link.
func (l location) keep(content []byte, mode os.FileMode, uid, gid int) (bool, error) {
	f, err := l.open(os.O_RDONLY)
	if err != nil {
		return false, nil // an unreadable file is replaced
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Nlink != 1 || !ours(info) && int(stat.Uid) != uid || info.Mode().Perm()&^mode&0o022 != 0 {
		return false, nil
	}
	old, err := io.ReadAll(io.LimitReader(f, int64(len(content))+1))
	if err != nil || !bytes.Equal(old, content) {
		return false, err
	}
	return true, setMeta(f, mode, uid, gid)
}

// writeNew creates a file.
func writeNew(folder *os.Root, name string, content []byte, mode os.FileMode, uid, gid int) error {
	if err := folder.RemoveAll(name); err != nil { // a leftover, or a trap
		return err
	}
	f, err := folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode&0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return fill(f, content, mode, uid, gid)
}

// fill restricts a file to its owner, sets the owner, writes the content, and sets the final mode last.
func fill(f *os.File, content []byte, mode os.FileMode, uid, gid int) error {
	if err := setMeta(f, mode&0o600, uid, gid); err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Sync()
}

func syncFolder(folder *os.Root) error {
	f, err := folder.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// setMeta sets owner and mode. It changes the owner only when it differs, because a change needs privileges. The owner
// comes first because chown clears the setuid bits.
func setMeta(f *os.File, mode os.FileMode, uid, gid int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || (uid >= 0 && int(stat.Uid) != uid) || (gid >= 0 && int(stat.Gid) != gid) {
		if err := f.Chown(uid, gid); err != nil {
			return err
		}
	}
	return f.Chmod(mode)
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
