package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
)

// Kinds of things that a lab creates outside its folder. Processes are not recorded: the lab finds them by control
// group and mark (stray.go).
const (
	kindNamespace = "namespace" // a network namespace, by name
	kindCgroup    = "cgroup"    // a control group folder, by path
)

// entry is one line of the record: a thing that is about to be created, or that was removed.
type entry struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Removed bool   `json:"removed,omitempty"`
}

// record is the append-only list of things that the lab created outside its folder. The line is on disk before the
// thing exists, so the record is always complete.
type record struct {
	mu   sync.Mutex
	path string
}

func (r *record) add(kind, name string) error { return r.append(entry{Kind: kind, Name: name}) }
func (r *record) remove(kind, name string) error {
	return r.append(entry{Kind: kind, Name: name, Removed: true})
}

func (r *record) append(e entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	file, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open record: %w", err)
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return file.Sync()
}

// open returns the things that were created and not removed, newest first. That is the order of their removal.
func (r *record) open() ([]entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	file, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open record: %w", err)
	}
	defer file.Close()
	var entries []entry
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var e entry
		if json.Unmarshal(scanner.Bytes(), &e) != nil {
			continue // a run was killed while it wrote the last line, so the thing does not exist yet
		}
		entries = slices.DeleteFunc(entries, func(other entry) bool {
			return other.Kind == e.Kind && other.Name == e.Name
		})
		if !e.Removed {
			entries = append(entries, e)
		}
	}
	slices.Reverse(entries)
	return entries, nil
}
