package supportbundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"time"
)

// folder is the folder of all files in the archive.
const folder = "drover-support-bundle/"

// Pack writes the files as a tar archive packed with gzip.
func Pack(out io.Writer, files []File, now time.Time) error {
	packed := gzip.NewWriter(out)
	archive := tar.NewWriter(packed)
	for _, file := range files {
		header := &tar.Header{Name: folder + file.Path, Mode: 0o600, Size: int64(len(file.Data)), ModTime: now,
			Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(file.Data); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}
