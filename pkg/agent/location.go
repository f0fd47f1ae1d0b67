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

// maxLinks is how many links a path may lead over, as in the kernel.
const maxLinks = 40

// location is a name in an open directory. There need not be anything of that name.
type location struct {
	folder *os.Root
	name   string
}

// Close ends the use of the directory.
func (l location) Close() { _ = l.folder.Close() } // it was only read

// locate finds where a path leads. The agent is root, and plans may name paths below directories that others write to, such as
// /tmp. So the path is walked one open directory after the other, and no link is followed that another user can have laid:
// what is done at the location is done in the directory that was looked at, whatever is renamed meanwhile.
type locate struct {
	// create makes the directories on the way.
	create bool
	// follow goes on where the last element of the path is a link. One that another user can have laid is the location itself.
	follow bool

	open  []*os.Root // the directories from / to where the walk is
	links int
}

func (w *locate) path(path string) (location, error) {
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
	return slices.DeleteFunc(strings.Split(path, "/"), func(element string) bool { return element == "" || element == "." })
}

// back closes all but some of the open directories.
func (w *locate) back(keep int) {
	for _, folder := range w.open[keep:] {
		_ = folder.Close()
	}
	w.open = w.open[:keep]
}

func (w *locate) walk(way []string) (location, error) {
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

// turn is where a link takes over from the path.
func (w *locate) turn(l location, target string, trusted bool) error {
	if !trusted {
		return fmt.Errorf("%s on the way is a link of another user; remove it", l.name)
	}
	if w.links++; w.links > maxLinks {
		return syscall.ELOOP
	}
	if strings.HasPrefix(target, "/") {
		w.back(1)
	}
	return nil
}

// enter goes on in the directory at a location.
func (w *locate) enter(l location) error {
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

// enter opens the directory at a location, which is no link.
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
		err = errExchanged
	}
	if err != nil {
		_ = next.Close()
		return nil, err
	}
	return next, nil
}

var errExchanged = errors.New("was exchanged while it was opened")

// open opens the regular file at a location, which is no link.
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
		err = errExchanged
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// link returns where the link at a location leads, empty when there is none, and whether that can be trusted: the link is
// ours, or it is where nobody else makes links.
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

// ours reports whether something belongs to root, or to whom we run as.
func ours(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}

// keepOwner resolves -1, which leaves the owner alone: the new file gets the owner of the one it replaces. Where everybody may
// make files that one says nothing.
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
