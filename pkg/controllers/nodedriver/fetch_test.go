package nodedriver

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/outcome"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
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

func TestFetch(t *testing.T) {
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
			h := &handler{Deps: Deps{Directory: t.TempDir(), HTTP: v.Client(), Working: t.Context()}}
			got, err := h.fetch(v.URL+"/"+test.file, test.checksum)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error is %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(got.program)
			if err != nil || !bytes.Equal(content, program) || got.name != "sim" ||
				got.sha256 != digest(test.file, "sha256") {
				t.Errorf("fetched %+v with %q, %v", got, content, err)
			}
			before := v.requests.Load()
			if _, err := h.fetch(v.URL+"/"+test.file, test.checksum); err != nil || v.requests.Load() != before {
				t.Errorf("the second fetch: %v, %d requests", err, v.requests.Load()-before)
			}
		})
	}
}

// Conditions do not show the query of a driver's URL, which may be a signature.
func TestFetch_HidesSignatures(t *testing.T) {
	v := newVendor(t)
	h := &handler{Deps: Deps{Directory: t.TempDir(), HTTP: v.Client(), Working: t.Context()}}
	for name, location := range map[string]string{
		"an answer": v.URL + "/missing?sig=hunter2", "without an answer": "http://127.0.0.1:1/x?sig=hunter2",
		"an invalid URL": "http://x y/?sig=hunter2",
		"a password":     strings.Replace(v.URL, "http://", "http://u:hunter2@", 1) + "/missing",
	} {
		if _, err := h.fetch(location, ""); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process that loses leadership does not wait for a vendor that does not answer, and reports nothing about the
// driver.
func TestOnChange_DownloadEndsWithTheWorkers(t *testing.T) {
	arrived := make(chan struct{})
	vendor := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	defer vendor.Close()
	working, stop := context.WithCancel(t.Context())
	// Without clients the handler cannot report, but it must not get that far.
	h := &handler{Deps: Deps{Directory: t.TempDir(), HTTP: vendor.Client(), Working: working, Now: time.Now},
		schemas: noSchemas{}}
	ended := make(chan error, 1)
	driver := &mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "slow"},
		Spec: mgmtv3.NodeDriverSpec{Active: true, URL: vendor.URL + "/docker-machine-driver-slow"}}
	go func() {
		_, err := h.onChange(driver.Name, driver)
		ended <- err
	}()
	<-arrived
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the download ended with %v", err)
	}
}

// noSchemas is an empty cache.
type noSchemas struct {
	mgmtcontrollers.DynamicSchemaCache
}

func (noSchemas) Get(name string) (*mgmtv3.DynamicSchema, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "dynamicschemas"}, name)
}

func TestFetch_MarksTransientErrors(t *testing.T) {
	v := newVendor(t)
	h := &handler{Deps: Deps{Directory: t.TempDir(), HTTP: v.Client(), Working: t.Context()}}
	for status, wantRetry := range map[int32]bool{http.StatusServiceUnavailable: true, http.StatusNotFound: false,
		http.StatusForbidden: true} {
		v.status.Store(status)
		_, err := h.fetch(v.URL+"/x", "")
		res := failure(mgmtv3.NodeDriverConditionDownloaded, err)
		if (res.retry != nil) != wantRetry {
			t.Errorf("status %d: retry %v, want %v", status, res.retry, wantRetry)
		}
	}
	v.Close()
	_, err := h.fetch(v.URL+"/y", "")
	if failure("x", err).retry == nil {
		t.Errorf("the error of an unreachable vendor is not transient: %v", err)
	}
	if err := outcome.CheckStable(err.Error()); err != nil {
		t.Error(err)
	}
	broken := failure("x",
		&transientError{errors.New("read tcp 10.0.0.1:41234->10.0.0.2:443: read: connection reset by peer")})
	if err := outcome.CheckStable(broken.message); err != nil {
		t.Error(err)
	}
}

// installation runs the controller against an in-memory API. It uses real time because it runs programs.
