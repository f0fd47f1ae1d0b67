package driverprogram

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/testkit/packed"
)

// vendor serves driver files and counts requests.
type vendor struct {
	*httptest.Server
	files    map[string][]byte
	status   atomic.Int32
	requests atomic.Int32
}

func newVendor(t *testing.T) *vendor {
	t.Helper()
	v := &vendor{files: map[string][]byte{}}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.requests.Add(1)
		content, ok := v.files[strings.TrimPrefix(r.URL.Path, "/")]
		switch {
		case v.status.Load() != 0:
			w.WriteHeader(int(v.status.Load()))
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = w.Write(content)
		}
	}))
	t.Cleanup(v.Close)
	return v
}

func zipOf(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, member := range []string{name + ".sha256", name} {
		w, err := archive.Create(member)
		if err != nil {
			t.Fatal(err)
		}
		if member == name {
			_, err = w.Write(content)
		} else {
			_, err = w.Write([]byte("abc"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestDownload(t *testing.T) {
	program := []byte("\x7fELF program")
	v := newVendor(t)
	v.files = map[string][]byte{
		"docker-machine-driver-sim-linux": program, "sim.zip": zipOf(t, "dist/docker-machine-driver-sim", program),
		"sim.tgz": packed.Archive(map[string]string{"./docker-machine-driver-sim.v2": string(program)}),
		"page":    []byte("<html>"), "plain": program,
		"empty.zip":  zipOf(t, "docker-machine-driver-sim", []byte("text")),
		"broken.tgz": packed.Archive(map[string]string{"docker-machine-driver-sim": string(program)})[:30],
		"empty":      nil,
	}
	digest := func(file, kind string) string {
		content := v.files[file]
		switch kind {
		case "md5":
			sum := md5.Sum(content)
			return hex.EncodeToString(sum[:])
		case "sha1":
			sum := sha1.Sum(content)
			return hex.EncodeToString(sum[:])
		case "sha512":
			sum := sha512.Sum512(content)
			return hex.EncodeToString(sum[:])
		}
		sum := sha256.Sum256(content)
		return hex.EncodeToString(sum[:])
	}
	const raw = "docker-machine-driver-sim-linux"
	for name, test := range map[string]struct{ file, checksum, wantErr string }{
		"without a checksum":  {file: raw},
		"SHA-256":             {file: raw, checksum: digest(raw, "sha256")},
		"SHA-512 in capitals": {file: raw, checksum: strings.ToUpper(digest(raw, "sha512"))},
		"SHA-1":               {file: raw, checksum: digest(raw, "sha1")},
		"MD5 with spaces":     {file: raw, checksum: " " + digest(raw, "md5") + " "},
		"a zip":               {file: "sim.zip"},
		"a tar":               {file: "sim.tgz"},
		"a wrong checksum": {file: raw, checksum: digest("page", "sha256"),
			wantErr: "spec.checksum: the driver's checksum is"},
		"a page":                      {file: "page", wantErr: "an ELF program, a zip or a gzipped tar"},
		"nothing":                     {file: "empty", wantErr: "an ELF program, a zip or a gzipped tar"},
		"a program with another name": {file: "plain", wantErr: `file name is "plain"`},
		"a zip without a program":     {file: "empty.zip", wantErr: "the zip has no program"},
		"a truncated tar":             {file: "broken.tgz", wantErr: "tar"},
		"a missing file":              {file: "missing", wantErr: "404"},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			got, err := Download(t.Context(), Source{URL: v.URL + "/" + test.file, Checksum: test.checksum}, directory)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error is %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(filepath.Join(directory, driverPrefix+"sim"))
			if err != nil || !bytes.Equal(content, program) || got.Name != "sim" ||
				got.SHA256 != digest(test.file, "sha256") {
				t.Errorf("downloaded %+v with %q, %v", got, content, err)
			}
			if files, _ := os.ReadDir(directory); len(files) != 1 {
				t.Errorf("the directory has %d files, want only the program", len(files))
			}
		})
	}
}

// Conditions do not show the query of a driver's URL, which may be a signature.
func TestDownload_HidesSignatures(t *testing.T) {
	v := newVendor(t)
	for name, location := range map[string]string{
		"an answer": v.URL + "/missing?sig=hunter2", "without an answer": "http://127.0.0.1:1/x?sig=hunter2",
		"an invalid URL": "http://x y/?sig=hunter2",
		"a password":     strings.Replace(v.URL, "http://", "http://u:hunter2@", 1) + "/missing",
	} {
		if _, err := Download(t.Context(), Source{URL: location}, t.TempDir()); err == nil ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The reason of a failure is the same at each attempt, so that conditions do not change.
func TestDownload_HasStableErrors(t *testing.T) {
	v := newVendor(t)
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusForbidden} {
		v.status.Store(int32(status))
		if _, err := Download(t.Context(), Source{URL: v.URL + "/x"}, t.TempDir()); err == nil ||
			!strings.Contains(err.Error(), http.StatusText(status)) {
			t.Errorf("status %d: %v", status, err)
		}
	}
	v.Close()
	_, err := Download(t.Context(), Source{URL: v.URL + "/y"}, t.TempDir())
	if err == nil {
		t.Fatal("a vendor that does not listen: no error")
	}
	if err := outcome.CheckStable(err.Error()); err != nil {
		t.Error(err)
	}
}

// The download trusts the authorities of the server, and no unknown ones.
func TestDownload_TrustsTheGivenAuthorities(t *testing.T) {
	vendor := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("\x7fELF program"))
	}))
	defer vendor.Close()
	source := Source{URL: vendor.URL + "/docker-machine-driver-sim"}
	if _, err := Download(t.Context(), source, t.TempDir()); err == nil {
		t.Error("an unknown authority is trusted")
	}
	source.Authorities = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: vendor.Certificate().Raw}))
	if _, err := Download(t.Context(), source, t.TempDir()); err != nil {
		t.Error(err)
	}
}

// A stopped pod does not wait for a vendor that does not answer.
func TestDownload_EndsWithTheProcess(t *testing.T) {
	arrived := make(chan struct{})
	vendor := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	defer vendor.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Download(ctx, Source{URL: vendor.URL + "/docker-machine-driver-slow"}, t.TempDir())
		ended <- err
	}()
	<-arrived
	stop()
	if err := <-ended; err == nil {
		t.Error("no error")
	}
}

// A real program is downloaded, runs, and reports its flags through the termination message.
func TestFlags_OfADownloadedProgram(t *testing.T) {
	v := newVendor(t)
	v.files["sim.zip"] = zipOf(t, "docker-machine-driver-sim", self(t))
	directory := t.TempDir()
	if _, err := Flags(t.Context(), directory); err == nil {
		t.Error("a directory without a driver: no error")
	}
	if _, err := Download(t.Context(), Source{URL: v.URL + "/sim.zip"}, directory); err != nil {
		t.Fatal(err)
	}
	flags, err := Flags(t.Context(), directory)
	if err != nil || len(flags) != 4 || flags[0].Name != "sim-token" {
		t.Errorf("flags are %+v, %v", flags, err)
	}
}

// A vendor's redirect must not remove the protection of https.
func TestDownload_KeepsTLSAfterARedirect(t *testing.T) {
	plain := newVendor(t)
	plain.files["docker-machine-driver-sim"] = []byte("\x7fELF program")
	vendor := httptest.NewTLSServer(http.RedirectHandler(plain.URL+"/docker-machine-driver-sim", http.StatusFound))
	defer vendor.Close()
	source := Source{URL: vendor.URL + "/docker-machine-driver-sim", Authorities: string(pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: vendor.Certificate().Raw}))}
	if _, err := Download(t.Context(), source, t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "without https") {
		t.Errorf("error is %v", err)
	}
	if plain.requests.Load() > 0 {
		t.Error("the driver was downloaded without https")
	}
}
