package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// entry is a folder or a file of an image.
type entry struct {
	// source is the file with the content. It is empty for a folder.
	source   string
	mode     fs.FileMode
	size     int64
	uid, gid int
}

// tree is the file system of an image, by path without a '/' at either end.
type tree map[string]entry

// Tree executes the steps of a stage. Sources are below dir.
func Tree(dir string, steps []Step) (tree, error) {
	out := tree{}
	for _, step := range steps {
		if step.Source == "" {
			out.parents(path.Join(step.Destination, "."), step.UID, step.GID)
			continue
		}
		if err := out.add(filepath.Join(dir, filepath.FromSlash(step.Source)), step); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parents creates a folder and its parents if they do not exist.
func (t tree) parents(name string, uid, gid int) {
	for ; name != "." && name != ""; name = path.Dir(name) {
		if _, ok := t[name]; !ok {
			t[name] = entry{mode: fs.ModeDir | 0o755, uid: uid, gid: gid}
		}
	}
}

func (t tree) add(dir string, step Step) error {
	t.parents(path.Join(step.Destination, "."), step.UID, step.GID)
	return filepath.WalkDir(dir, func(file string, found fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, file)
		if err != nil || inside == "." {
			return err
		}
		info, err := found.Info()
		if err != nil {
			return err
		}
		added := entry{mode: info.Mode(), uid: step.UID, gid: step.GID}
		switch {
		case info.IsDir():
		case info.Mode().IsRegular():
			added.source, added.size = file, info.Size()
		default:
			return fmt.Errorf("%s is neither a file nor a folder", file)
		}
		t[path.Join(step.Destination, filepath.ToSlash(inside))] = added
		return nil
	})
}

// Archive writes a tree as tar, sorted and with the time created, so that the same files give the same bytes.
func (t tree) Archive(out io.Writer, created time.Time) error {
	archive := tar.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		e := t[name]
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: int64(e.mode.Perm()), Size: e.size, Uid: e.uid, Gid: e.gid,
			ModTime: created,
		}
		if e.mode.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, name+"/"
		}
		if e.mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if err := e.copyTo(archive); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (e entry) copyTo(out io.Writer) error {
	if e.source == "" {
		return nil
	}
	in, err := os.Open(e.source)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, in.Close())
}
