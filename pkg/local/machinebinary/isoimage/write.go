package isoimage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

const (
	sector = 2048
	// overhead is more than the descriptors, path tables and folders of a few files need.
	overhead = 1 << 20
)

// Write writes the image. It replaces an existing file.
func Write(i Invocation) error {
	content, err := bytesBelow(i.Source)
	if err != nil {
		return fmt.Errorf("read folder %s: %w", i.Source, err)
	}
	if err := os.Remove(i.Output); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	size := (content + overhead) / sector * sector
	disk, err := file.CreateFromPath(i.Output, size)
	if err != nil {
		return fmt.Errorf("make %s: %w", i.Output, err)
	}
	if err := errors.Join(fill(disk, size, i), disk.Close()); err != nil {
		return fmt.Errorf("make %s: %w", i.Output, err)
	}
	return nil
}

func fill(disk backend.Storage, size int64, i Invocation) error {
	image, err := iso9660.Create(disk, size, 0, sector, "")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(image.Workspace()) }()
	if err := os.CopyFS(image.Workspace(), os.DirFS(i.Source)); err != nil {
		return err
	}
	return image.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: i.Volume})
}

// bytesBelow returns the size of the files in whole sectors.
func bytesBelow(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			sum += (info.Size() + sector - 1) / sector * sector
		}
		return err
	})
	return sum, err
}
