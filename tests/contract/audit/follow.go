package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Follower reads an audit log that grows. Each Read continues where the last one ended, so that following a long log
// costs as much as reading it once. It also reads the end of a file that the API server has rotated.
type Follower struct {
	path string
	file *os.File
	in   *bufio.Reader
	// rest is the beginning of a line that the API server has not completed yet.
	rest []byte
}

// Follow returns a follower that begins at the start of a log. The log need not exist yet.
func Follow(path string) *Follower { return &Follower{path: path} }

// Close closes the file.
func (f *Follower) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Read calls a function for each write that was answered since the last Read.
func (f *Follower) Read(each func(Write)) error {
	return f.read(func(event auditEvent) {
		if event.isWrite() {
			each(event.request())
		}
	})
}

func (f *Follower) read(each func(auditEvent)) error {
	for {
		if f.file == nil {
			if err := f.open(); err != nil || f.file == nil {
				return err
			}
		}
		if err := f.lines(each); err != nil {
			return err
		}
		rotated, err := f.rotated()
		if err != nil || !rotated {
			return err
		}
		// The file may have grown before it was rotated.
		if err := f.lines(each); err != nil {
			return err
		}
		if err := f.file.Close(); err != nil {
			return fmt.Errorf("close audit log: %w", err)
		}
		f.file, f.rest = nil, nil
	}
}

func (f *Follower) open() error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	f.file, f.in = file, bufio.NewReader(file)
	return nil
}

// lines reads the complete lines up to the end of the file.
func (f *Follower) lines(each func(auditEvent)) error {
	for {
		line, err := f.in.ReadBytes('\n')
		f.rest = append(f.rest, line...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		var event auditEvent
		if err := json.Unmarshal(f.rest, &event); err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		f.rest = f.rest[:0]
		if event.Stage == "ResponseComplete" {
			each(event)
		}
	}
}

// rotated reports whether the path names another file now.
func (f *Follower) rotated() (bool, error) {
	current, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find audit log: %w", err)
	}
	opened, err := f.file.Stat()
	if err != nil {
		return false, fmt.Errorf("find audit log: %w", err)
	}
	return !os.SameFile(current, opened), nil
}

// isWrite reports whether a request may have changed stored objects.
func (e auditEvent) isWrite() bool {
	return slices.Contains(writes, e.Verb) && !tokenOrAccess(e.ObjectRef.APIGroup)
}
