package agent

import (
	"archive/tar"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/sirupsen/logrus"
)

// imageStager unpacks the image of an instruction into its scratch directory.
type imageStager interface {
	stage(ctx context.Context, image, dir string) error
}

// images looks for images in archives on this machine first, then in registries (docs/wire/plan.md#images).
type images struct {
	dir            string
	registriesFile []string
	log            logrus.FieldLogger

	mu    sync.Mutex
	known map[string]archiveTags
}

// archiveTags caches the content list of an archive, because archives are gigabytes in size.
type archiveTags struct {
	size     int64
	modified time.Time
	// tags maps the normalized name of an image to its name in the archive.
	tags map[string]string
}

func (i *images) stage(ctx context.Context, image, dir string) error {
	ref, err := name.ParseReference(image, name.WeakValidation)
	if err != nil {
		return errors.New("the name of the image is not valid")
	}
	img, err := i.fromArchives(ref)
	if err != nil {
		return err
	}
	if img == nil {
		blobs, err := os.MkdirTemp(filepath.Dir(dir), "blobs-")
		if err != nil {
			return fmt.Errorf("make directory for a download: %w", err)
		}
		defer os.RemoveAll(blobs)
		if img, err = i.fromRegistry(ctx, ref, blobs); err != nil {
			return err
		}
	}
	flat := mutate.Extract(img)
	defer flat.Close()
	return extract(ctx, flat, dir)
}

// fromArchives returns the image from the first archive that contains its tag, or nil. It ignores images named by
// digest, because docker archives contain only tags. It skips unreadable archives, which may belong to other images.
func (i *images) fromArchives(ref name.Reference) (v1.Image, error) {
	if _, byDigest := ref.(name.Digest); byDigest {
		return nil, nil
	}
	for _, path := range i.archives() {
		tags, err := i.tagsOf(path)
		if err != nil {
			i.log.WithField("archive", path).WithError(err).Warn("Skipping an image archive that cannot be read")
			continue
		}
		stored, ok := tags[ref.Name()]
		if !ok {
			continue
		}
		tag, err := name.NewTag(stored, name.WeakValidation)
		if err != nil {
			continue
		}
		img, err := tarball.Image(func() (io.ReadCloser, error) { return openArchive(path) }, &tag)
		if err != nil {
			return nil, fmt.Errorf("read image from archive %s: %w", path, err)
		}
		return img, nil
	}
	return nil, nil
}

// archives lists the image archives below the directory in path order.
func (i *images) archives() []string {
	var out []string
	_ = filepath.WalkDir(i.dir, func(path string, entry fs.DirEntry, err error) error { // unreadable files are skipped
		if err == nil && !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && decompressor(path) != nil {
			out = append(out, path)
		}
		return nil
	})
	return out
}

func (i *images) tagsOf(path string) (map[string]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.known[path]; ok && known.size == info.Size() && known.modified.Equal(info.ModTime()) {
		return known.tags, nil
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return openArchive(path) })
	if err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, image := range manifest {
		for _, tag := range image.RepoTags {
			if ref, err := name.ParseReference(tag, name.WeakValidation); err == nil {
				tags[ref.Name()] = tag
			}
		}
	}
	if i.known == nil {
		i.known = map[string]archiveTags{}
	}
	i.known[path] = archiveTags{size: info.Size(), modified: info.ModTime(), tags: tags}
	return tags, nil
}

// decompressor selects the decompression by file name. It returns nil if the file is no image archive.
func decompressor(path string) func(io.Reader) (io.ReadCloser, error) {
	has := func(suffixes ...string) bool {
		for _, suffix := range suffixes {
			if strings.HasSuffix(path, suffix) {
				return true
			}
		}
		return false
	}
	switch {
	case has(".tar"):
		return func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil }
	case has(".tar.gz", ".tgz"):
		return func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }
	case has(".tar.bz2", ".tbz"):
		return func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil }
	case has(".tar.lz4"):
		return func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(lz4.NewReader(r)), nil }
	case has(".tar.zst", ".tzst"):
		return func(r io.Reader) (io.ReadCloser, error) {
			d, err := zstd.NewReader(r)
			if err != nil {
				return nil, err
			}
			return d.IOReadCloser(), nil
		}
	}
	return nil
}

type archiveReader struct {
	io.ReadCloser
	file *os.File
}

func (r archiveReader) Close() error {
	return errors.Join(r.ReadCloser.Close(), r.file.Close())
}

func openArchive(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	plain, err := decompressor(path)(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return archiveReader{ReadCloser: plain, file: f}, nil
}

// platform is the platform of this machine.
func platform() v1.Platform { return v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH} }

// extract unpacks a flattened root filesystem. Names and links in the archive cannot lead outside the directory. Modes
// lose write access for group and others. The agent's user owns the files.
func extract(ctx context.Context, r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open scratch directory: %w", err)
	}
	defer func() { _ = root.Close() }() // closing writes nothing
	archive := tar.NewReader(r)
	for ctx.Err() == nil {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			// When a layer is unreadable, mutate.Extract ends the archive normally and returns the error only on a
			// later read.
			_, err = io.Copy(io.Discard, r)
			if err == nil {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("unpack image: %w", err)
		}
		if err := extractEntry(root, header, archive); err != nil {
			return fmt.Errorf("unpack %s: %w", header.Name, err)
		}
	}
	return ctx.Err()
}

func extractEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	path := strings.TrimPrefix(filepath.Clean("/"+header.Name), "/")
	if path == "" {
		return nil
	}
	if parent := filepath.Dir(path); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	mode := os.FileMode(header.Mode).Perm() & 0o755
	if header.Typeflag != tar.TypeDir {
		if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	switch header.Typeflag {
	case tar.TypeDir:
		if err := root.MkdirAll(path, 0o755); err != nil {
			return err
		}
		return root.Chmod(path, mode|0o700)
	case tar.TypeReg:
		return extractFile(root, path, mode, content)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, path)
	case tar.TypeLink:
		return root.Link(strings.TrimPrefix(filepath.Clean("/"+header.Linkname), "/"), path)
	}
	return nil // devices and pipes are skipped
}

func extractFile(root *os.Root, path string, mode os.FileMode, content io.Reader) error {
	f, err := root.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, content); err != nil {
		f.Close()
		return err
	}
	return errors.Join(f.Chmod(mode), f.Close())
}
