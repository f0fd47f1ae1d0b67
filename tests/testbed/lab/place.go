package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Place makes a large file available at another path, which it replaces at once. The result is a hard link, or a copy
// if the paths are on different file systems.
func Place(source, target string) error {
	want, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("place file: %w", err)
	}
	if have, err := os.Stat(target); err == nil && (os.SameFile(want, have) ||
		have.Size() == want.Size() && have.ModTime().Equal(want.ModTime())) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("place file: %w", err)
	}
	unfinished := filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".new")
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("place file: %w", err)
	}
	if err := os.Link(source, unfinished); err != nil {
		if err := copyFile(source, unfinished); err != nil {
			return fmt.Errorf("place file: %w", err)
		}
		if err := os.Chtimes(unfinished, want.ModTime(), want.ModTime()); err != nil {
			return fmt.Errorf("place file: %w", err)
		}
	}
	return os.Rename(unfinished, target)
}

func copyFile(source, target string) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
