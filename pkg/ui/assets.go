package ui

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// built holds the files of the pages. scripts/ui builds them from web/.
//
//go:embed all:dist
var built embed.FS

const (
	indexFile    = "index.html"
	noncePattern = "__NONCE__"
	// assetsFolder holds files whose names change with their content.
	assetsFolder = "assets/"
	// smallFile is the size in bytes below which gzip saves nothing.
	smallFile = 1024
)

// mediaTypes are the media types of built files. The tables of the operating system differ between hosts.
var mediaTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8", ".ico": "image/x-icon",
	".js": "text/javascript; charset=utf-8", ".json": "application/json", ".map": "application/json",
	".png": "image/png", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8", ".woff2": "font/woff2",
	".webmanifest": "application/manifest+json",
}

// file is a built file in memory.
type file struct {
	plain, packed []byte
	mediaType     string
}

// files serves the pages.
type files struct {
	all   map[string]file
	index string
}

func newFiles() (*files, error) {
	root, err := fs.Sub(built, "dist")
	if err != nil {
		return nil, err
	}
	f := &files{all: map[string]file{}}
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		mediaType := mediaTypes[path.Ext(name)]
		if mediaType == "" {
			mediaType = "application/octet-stream"
		}
		f.all[name] = file{plain: data, packed: pack(data, mediaType), mediaType: mediaType}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the built files: %w", err)
	}
	index, ok := f.all[indexFile]
	if !ok {
		return nil, fmt.Errorf("the built files lack %s", indexFile)
	}
	f.index = string(index.plain)
	delete(f.all, indexFile)
	return f, nil
}

// pack returns the data in gzip form, nil if that saves nothing.
func pack(data []byte, mediaType string) []byte {
	if len(data) < smallFile || strings.HasPrefix(mediaType, "font/") || mediaType == "image/png" {
		return nil
	}
	var out bytes.Buffer
	writer, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil
	}
	_, _ = writer.Write(data) // a buffer accepts all
	_ = writer.Close()
	return out.Bytes()
}

// ServeHTTP implements http.Handler. A path that is no file is a page, which the browser selects by the path.
func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	harden(header)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	found, ok := f.all[name]
	switch {
	case ok:
		found.serve(w, r, strings.HasPrefix(name, assetsFolder))
	case strings.HasPrefix(name, assetsFolder):
		// A page of an earlier version asks for its files. A page in their place would confuse the browser.
		confine(header)
		http.Error(w, "the file is of another version of Drover; reload the page", http.StatusNotFound)
	default:
		f.servePage(w)
	}
}

func (f *files) servePage(w http.ResponseWriter) {
	nonce := newNonce()
	header := w.Header()
	header.Set("Content-Security-Policy", policy(nonce))
	header.Set("Content-Type", mediaTypes[".html"])
	header.Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(strings.ReplaceAll(f.index, noncePattern, nonce)))
}

func (f file) serve(w http.ResponseWriter, r *http.Request, immutable bool) {
	header, data := w.Header(), f.plain
	// An image or a file of text that is opened as a page runs nothing.
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	header.Set("Content-Type", f.mediaType)
	header.Set("Cache-Control", "no-cache")
	if immutable {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if f.packed != nil {
		header.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Get("Accept-Encoding")) {
			header.Set("Content-Encoding", "gzip")
			data = f.packed
		}
	}
	header.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(data)
	}
}

// acceptsGzip reads Accept-Encoding. Browsers send no weights for it, except zero to refuse.
func acceptsGzip(accepted string) bool {
	for each := range strings.SplitSeq(accepted, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(each), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.TrimSpace(weight) != "q=0"
		}
	}
	return false
}
