package processkubelet

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// whiteout is the prefix of entries that remove a file of the layers below.
const whiteout = ".wh."

// unpackOnce creates the directory root with the files of an image, atomically.
func unpackOnce(image v1.Image, root string) error {
	if _, err := os.Stat(root); err == nil {
		return nil
	}
	unfinished := root + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.MkdirAll(unfinished, 0o755); err != nil {
		return err
	}
	// Every user of the container must be able to enter it, whatever this process's umask.
	if err := os.Chmod(unfinished, 0o755); err != nil {
		return err
	}
	if err := unpack(image, unfinished); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	return os.Rename(unfinished, root)
}

// unpack writes the layers, the lowest first. No entry can leave dir, whatever its name and the links before it.
func unpack(image v1.Image, dir string) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	sums := config.RootFS.DiffIDs
	if len(sums) != len(layers) {
		return fmt.Errorf("the image has %d layers, but its configuration lists %d", len(layers), len(sums))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for i, layer := range layers {
		if err := unpackLayer(root, layer, sums[i]); err != nil {
			return fmt.Errorf("layer %s: %w", sums[i], err)
		}
	}
	return nil
}

// unpackLayer also checks the digest of the layer against the image's configuration, because reading a layout does not.
func unpackLayer(root *os.Root, layer v1.Layer, want v1.Hash) error {
	stream, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer stream.Close()
	sum := sha256.New()
	content := io.TeeReader(stream, sum)
	if err := unpackArchive(root, content); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.Hex {
		return fmt.Errorf("its content has the checksum %s", got)
	}
	return nil
}

func unpackArchive(root *os.Root, content io.Reader) error {
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(root, header, archive); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	name := filepath.Clean(header.Name)
	switch {
	case !filepath.IsLocal(name):
		return errors.New("it leads outside of the image")
	case strings.HasPrefix(filepath.Base(name), whiteout):
		return errors.New("it removes a file of another layer, and this node does not support that: build the image " +
			"with a single layer")
	case name == ".":
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := clearPlace(root, name, header.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeLink {
		return root.Link(filepath.Clean(header.Linkname), name) // a link has the mode and owner of its file
	}
	if err := makeEntry(root, name, header, content); err != nil {
		return err
	}
	if err := root.Lchown(name, header.Uid, header.Gid); err != nil || header.Typeflag == tar.TypeSymlink {
		return err
	}
	return root.Chmod(name, header.FileInfo().Mode()&(fs.ModePerm|fs.ModeSticky|fs.ModeSetuid|fs.ModeSetgid))
}

// makeEntry creates an entry without its owner and mode.
func makeEntry(root *os.Root, name string, header *tar.Header, content io.Reader) error {
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o700)
	case tar.TypeReg:
		return unpackFile(root, name, content)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	default:
		return fmt.Errorf("it must be a file, a directory or a link, but has type %q", header.Typeflag)
	}
}

// clearPlace removes an entry of a lower layer that a new entry replaces. A directory stays if a directory replaces it.
func clearPlace(root *os.Root, name string, dir bool) error {
	if info, err := root.Lstat(name); err == nil && info.IsDir() && dir {
		return nil
	}
	return root.RemoveAll(name)
}

func unpackFile(root *os.Root, name string, content io.Reader) error {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
