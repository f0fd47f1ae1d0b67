package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxLinks is the maximum number of links in a path, as in the kernel.
const maxLinks = 40

// location is a name in an open directory. A file of that name need not exist.
type location struct {
	folder *os.Root
	name   string
}

// Close closes the directory.
func (l location) Close() { _ = l.folder.Close() } // it was only read

// pathWalker resolves a path safely. The agent runs as root, and plans may name paths below directories that other
// users can write to, such as /tmp. So pathWalker opens one directory after the other, and follows no link that another
// user may have created. Operations on the result act in the directory that was checked, even if paths are renamed
// meanwhile.
type pathWalker struct {
	// create creates missing parent directories.
	create bool
	// follow also follows a link in the last element of the path. If another user may have created that link, the link
	// itself is the location.
	follow bool

	open  []*os.Root // the open directories from / to the current one
	links int
}

func (w *pathWalker) path(path string) (location, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return location{}, err
	}
	root, err := os.OpenRoot("/")
	if err != nil {
		return location{}, err
	}
	w.open = []*os.Root{root}
	found, err := w.walk(elements(path))
	if err == nil {
		w.open = w.open[:len(w.open)-1]
	}
	w.back(0)
	return found, err
}

func elements(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(element string) bool {
		return element == "" || element == "."
	})
}

// back closes all open directories after the first keep.
func (w *pathWalker) back(keep int) {
	for _, folder := range w.open[keep:] {
		_ = folder.Close()
	}
	w.open = w.open[:keep]
}

func (w *pathWalker) walk(way []string) (location, error) {
	for len(way) > 0 {
		here := location{folder: w.open[len(w.open)-1], name: way[0]}
		way = way[1:]
		last := len(way) == 0
		if here.name == ".." {
			w.back(max(1, len(w.open)-1))
			continue
		}
		target, trusted, err := here.link()
		switch {
		case err != nil:
			return location{}, err
		case target != "" && (!last || w.follow && trusted):
			if err := w.turn(here, target, trusted); err != nil {
				return location{}, err
			}
			way = slices.Concat(elements(target), way)
		case last:
			return here, nil
		default:
			if err := w.enter(here); err != nil {
				return location{}, err
			}
		}
	}
	return location{}, errors.New("path must name something in a directory")
}

// turn checks a link, and starts at / again for an absolute target.
func (w *pathWalker) turn(l location, target string, trusted bool) error {
	if !trusted {
		return fmt.Errorf("%s in the path is a link that another user owns; remove it", l.name)
	}
	if w.links++; w.links > maxLinks {
		return syscall.ELOOP
	}
	if strings.HasPrefix(target, "/") {
		w.back(1)
	}
	return nil
}

// enter opens the directory at a location and continues there.
func (w *pathWalker) enter(l location) error {
	next, err := l.enter()
	if w.create && errors.Is(err, fs.ErrNotExist) {
		if err := l.folder.Mkdir(l.name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		next, err = l.enter()
	}
	if err != nil {
		return err
	}
	w.open = append(w.open, next)
	return nil
}

// enter opens the directory at a location. It refuses links.
func (l location) enter() (*os.Root, error) {
	seen, err := l.folder.Lstat(l.name)
	if err != nil {
		return nil, err
	}
	next, err := l.folder.OpenRoot(l.name)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(seen, opened) {
		err = errReplaced
	}
	if err != nil {
		_ = next.Close()
		return nil, err
	}
	return next, nil
}

var errReplaced = errors.New("was replaced while it was opened")

// open opens the regular file at a location. It refuses links.
func (l location) open(flag int) (*os.File, error) {
	seen, err := l.folder.Lstat(l.name)
	if err != nil {
		return nil, err
	}
	if !seen.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	f, err := l.folder.OpenFile(l.name, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(seen, opened) {
		err = errReplaced
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// link returns the target of the link at a location, or an empty string without a link. trusted means that the link is
// ours, or that only we can create links in its directory.
func (l location) link() (target string, trusted bool, err error) {
	info, err := l.folder.Lstat(l.name)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return "", false, err
	}
	folder, err := l.folder.Stat(".")
	if err != nil {
		return "", false, err
	}
	target, err = l.folder.Readlink(l.name)
	return target, ours(info) || ours(folder) && folder.Mode()&0o022 == 0, err
}

// ours reports whether root or the agent's user owns a file.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// keepOwner resolves the value -1, which keeps the owner: the new file gets the owner of the file it replaces. In a
// world-writable directory the old owner means nothing, so -1 remains.
func (l location) keepOwner(uid, gid int) (newUID, newGID int) {
	folder, err := l.folder.Stat(".")
	if err != nil || folder.Mode()&0o002 != 0 {
		return uid, gid
	}
	info, err := l.folder.Lstat(l.name)
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
