package connect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"sync"
	"time"
)

const (
	assetsPrefix  = "/assets/"
	agentAsset    = "rancher-system-agent-"
	uninstallName = "system-agent-uninstall.sh"
)

// assetName is the form of file names below /assets/: one path element without a leading dot.
var assetName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,127}$`)

// assets serves downloads: first the files of a directory, then the agent and its uninstall script.
type assets struct {
	dir      string
	binary   string
	checksum func() string
	known    *checksums
}

func newAssets(dir, binary string) assets {
	return assets{dir: dir, binary: binary, checksum: sync.OnceValue(func() string { return fileChecksum(binary) }),
		known: &checksums{sum: readerChecksum}}
}

// checksums remembers the checksum of a file until the file changes: its inode, its size or its modification time. It
// computes one checksum at a time, because each install script needs the same one.
type checksums struct {
	sum func(io.Reader) string

	mu   sync.Mutex
	of   os.FileInfo
	last string
}

func (c *checksums) file(f *os.File) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := f.Stat()
	if err != nil {
		return ""
	}
	if c.of != nil && os.SameFile(c.of, now) && c.of.Size() == now.Size() && c.of.ModTime().Equal(now.ModTime()) {
		return c.last
	}
	c.of, c.last = now, c.sum(f)
	if c.last == "" {
		c.of = nil // the file was unreadable, perhaps only now
	}
	return c.last
}

// ownAgent is the name of the asset that is the running program.
func ownAgent() string { return agentAsset + runtime.GOARCH }

func (a assets) serve(w http.ResponseWriter, r *http.Request, name string) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this path answers only GET", http.StatusMethodNotAllowed)
	case !assetName.MatchString(name):
		http.Error(w, "this file does not exist", http.StatusNotFound)
	case a.fromDir(w, r, name):
	case name == ownAgent() && runtime.GOOS == "linux":
		f, err := os.Open(a.binary)
		if err != nil {
			http.Error(w, "the server cannot read the agent's program", http.StatusInternalServerError)
			return
		}
		defer f.Close()
		serveFile(w, r, name, f)
	case name == uninstallName:
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader([]byte(uninstallScript)))
	default:
		http.Error(w, "this file does not exist", http.StatusNotFound)
	}
}

// fromDir serves a file of the directory and reports whether it exists. Links cannot lead out of the directory.
func (a assets) fromDir(w http.ResponseWriter, r *http.Request, name string) bool {
	f := a.open(name)
	if f == nil {
		return false
	}
	defer f.Close()
	serveFile(w, r, name, f)
	return true
}

// open returns a regular file of the directory, or nil.
func (a assets) open(name string) *os.File {
	if a.dir == "" {
		return nil
	}
	f, err := os.OpenInRoot(a.dir, name)
	if err != nil {
		return nil
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil
	}
	return f
}

func serveFile(w http.ResponseWriter, r *http.Request, name string, f *os.File) {
	info, err := f.Stat()
	if err != nil {
		http.Error(w, "the server cannot read the file", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, name, info.ModTime(), f)
}

// agentChecksum is the SHA-256 of the served agent for this program's architecture, or "" if it is unreadable.
func (a assets) agentChecksum() (sum, arch string) {
	if f := a.open(ownAgent()); f != nil {
		defer f.Close()
		return a.known.file(f), runtime.GOARCH
	}
	return a.checksum(), runtime.GOARCH
}

func fileChecksum(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return readerChecksum(f)
}

func readerChecksum(r io.Reader) string {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
