package snapshots

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// MaxListed is the maximum number of entries that are read.
	MaxListed = 5000
	// VersionsPage is the number of entries in a request for names and versions only.
	VersionsPage = 500
	// FilesPage is the number of whole entries in a request.
	FilesPage = 100
	// maxVersionsPage and maxFilesPage limit a page, and maxEntry an entry, in bytes; etcd's own limit for an entry is
	// lower. maxNext limits the token for the next page.
	maxVersionsPage = 2 << 20
	maxFilesPage    = 32 << 20
	maxEntry        = 2 << 20
	maxNext         = 4 << 10
)

// Kinds of lists.
const (
	kindFiles    = "ETCDSnapshotFileList"
	kindVersions = "PartialObjectMetadataList"
)

// The errors contain nothing from the cluster's answer.
var (
	errList     = errors.New("the cluster's answer is not a list of etcdsnapshotfiles.k3s.cattle.io")
	errTooLarge = errors.New("a page of the cluster's list of snapshots is too large")
)

// WriteVersions reads a page of a list and writes to w what changes with each entry. next is the token for the next
// page, empty at the end.
func WriteVersions(w io.Writer, page io.Reader) (next string, err error) {
	return walk(page, maxVersionsPage, func(dec *json.Decoder) error {
		var entry struct {
			Metadata struct{ Name, UID, ResourceVersion string } `json:"metadata"`
		}
		if err := dec.Decode(&entry); err != nil {
			return errList
		}
		_, err := fmt.Fprintf(w, "%q %q %q\n", entry.Metadata.Name, entry.Metadata.UID, entry.Metadata.ResourceVersion)
		return err
	})
}

// List collects the files of a list, page by page. It keeps the youngest MaxFiles.
type List struct {
	files map[string]File
	// odd is true after an unreadable entry.
	odd, ended bool
}

// Read adds a page. next is the token for the next page, empty at the end.
func (l *List) Read(page io.Reader) (next string, err error) {
	if l.files == nil {
		l.files = map[string]File{}
	}
	next, err = walk(page, maxFilesPage, func(dec *json.Decoder) error {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return errList
		}
		var entry listed
		if len(raw) > maxEntry || json.Unmarshal(raw, &entry) != nil {
			l.odd = true
		} else if file, ok := entry.file(); ok {
			l.files[file.Name] = file
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if len(l.files) > MaxFiles {
		kept := map[string]File{}
		for _, file := range youngest(l.files) {
			kept[file.Name] = file
		}
		l.files = kept
	}
	l.ended = next == ""
	return next, nil
}

// Complete reports whether the whole list was read.
func (l *List) Complete() bool { return l.ended && !l.odd }

// Files returns the youngest MaxFiles, the youngest first.
func (l *List) Files() []File { return youngest(l.files) }

// walk reads a page of a list entry by entry, so that the whole answer of a cluster is never in memory.
func walk(page io.Reader, limit int64, entry func(*json.Decoder) error) (next string, err error) {
	source := &remembering{r: page}
	bounded := &io.LimitedReader{R: source, N: limit}
	var meta struct{ Continue string }
	kind, listed := "", false
	err = object(json.NewDecoder(bounded), func(dec *json.Decoder, key string) error {
		switch key {
		case "kind":
			return dec.Decode(&kind)
		case "metadata":
			return dec.Decode(&meta)
		case "items":
			listed = true
			return entries(dec, entry)
		}
		return dec.Decode(&json.RawMessage{})
	})
	switch {
	case err != nil:
		return "", cause(err, source, bounded)
	case !listed || kind != kindFiles && kind != kindVersions || len(meta.Continue) > maxNext:
		return "", errList
	}
	return meta.Continue, nil
}

// cause is why a page could not be read. The decoder only knows that the input ended.
func cause(err error, source *remembering, bounded *io.LimitedReader) error {
	switch {
	case source.err != nil:
		return source.err
	case bounded.N <= 0, errors.Is(err, errTooLarge):
		return errTooLarge
	}
	return errList
}

// object reads a JSON object and calls value for each key.
func object(dec *json.Decoder, value func(dec *json.Decoder, key string) error) error {
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return errList
	}
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return errList
		}
		if err := value(dec, key); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return errList
	}
	return nil
}

// entries reads a list of entries. API servers write null for an empty list.
func entries(dec *json.Decoder, entry func(*json.Decoder) error) error {
	start, err := dec.Token()
	switch {
	case err == nil && start == nil:
		return nil
	case err != nil || start != json.Delim('['):
		return errList
	}
	for n := 0; dec.More(); n++ {
		if n == 2*VersionsPage { // servers may send more than was requested
			return errTooLarge
		}
		if err := entry(dec); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return errList
	}
	return nil
}

// remembering keeps the error that ended reading early, which a decoder's error does not contain.
type remembering struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
