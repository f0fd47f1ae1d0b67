package agent

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// newLayer returns a layer of regular files, given as names and contents.
func newLayer(t *testing.T, files ...string) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Typeflag: tar.TypeReg, Mode: 0o644,
			Size: int64(len(files[i+1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return rawLayer(t, buf.Bytes())
}

func rawLayer(t *testing.T, content []byte) v1.Layer {
	t.Helper()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

// imageOf returns an image of layers, and the digest of the lowest one.
func imageOf(t *testing.T, layers ...v1.Layer) (v1.Image, string) {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	return img, digest.String()
}

// serve starts a registry that serves the image as an/image:v1, and returns its host. spoil answers requests for the
// blob.
func serve(t *testing.T, img v1.Image, blob string, spoil func(w http.ResponseWriter, content []byte)) string {
	t.Helper()
	backend := registry.New(registry.Logger(stdlog.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if spoil == nil || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/blobs/"+blob) {
			backend.ServeHTTP(w, r)
			return
		}
		whole := httptest.NewRecorder()
		backend.ServeHTTP(whole, r)
		spoil(w, whole.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	tag, err := name.NewTag(host+"/an/image:v1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
	return host
}

// unpacked stages an image and returns its files by name. It checks that nothing remains next to the scratch directory.
func unpacked(t *testing.T, i *images, image string) (map[string]string, error) {
	t.Helper()
	work := t.TempDir()
	dir := filepath.Join(work, "scratch")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	staged := i.stage(t.Context(), image, dir)
	if left, err := os.ReadDir(work); err != nil || len(left) != 1 {
		t.Errorf("remaining files %v, %v", left, err)
	}
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		out[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, staged
}

func TestStage_LayerDownloadFails(t *testing.T) {
	img, lowest := imageOf(t, newLayer(t, "bin", strings.Repeat("what runs", 1000), "lib", "y"),
		newLayer(t, "run.sh", "new"))
	other, err := newLayer(t, "bin", "another blob").Compressed()
	if err != nil {
		t.Fatal(err)
	}
	replacement, err := io.ReadAll(other)
	if err != nil {
		t.Fatal(err)
	}
	faults := map[string]func(w http.ResponseWriter, content []byte){
		"forbidden": func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusForbidden) },
		"not found": func(w http.ResponseWriter, _ []byte) { w.WriteHeader(http.StatusNotFound) },
		"one bit flipped": func(w http.ResponseWriter, content []byte) {
			content[len(content)-3] ^= 1 // in the gzip trailer, after all unpacked content
			_, _ = w.Write(content)
		},
		"replaced": func(w http.ResponseWriter, _ []byte) { _, _ = w.Write(replacement) },
		"cut off": func(w http.ResponseWriter, content []byte) {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = w.Write(content[:len(content)/2])
		},
		"shifted": func(w http.ResponseWriter, content []byte) { _, _ = w.Write(append([]byte("x"), content...)) },
	}
	for fault, spoil := range faults {
		t.Run(fault, func(t *testing.T) {
			bad, good := serve(t, img, lowest, spoil), serve(t, img, "", nil)
			i := &images{log: quiet()}
			if got, err := unpacked(t, i, bad+"/an/image:v1"); err == nil || len(got) != 0 {
				t.Errorf("unpacked %d files, %v", len(got), err)
			} else if !strings.Contains(err.Error(), lowest) || !strings.Contains(err.Error(), "pull from "+bad) {
				t.Errorf("the error must name the registry and the layer: %v", err)
			}
			i.registriesFile = []string{filepath.Join(t.TempDir(), "registries.yaml")}
			text := `{"mirrors":{"` + good + `":{"endpoint":["http://` + bad + `"]}}}`
			if err := os.WriteFile(i.registriesFile[0], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := unpacked(t, i, good+"/an/image:v1"); err != nil || len(got) != 3 {
				t.Errorf("after the first registry the second was not asked: %d files, %v", len(got), err)
			}
		})
	}
}

func TestStage_LaterLayersOverrideEarlierLayers(t *testing.T) {
	lower := newLayer(t, "run.sh", "old", "gone", "x", "dir/gone", "x", "dir/kept", "y", "all/gone", "x")
	img, _ := imageOf(t, lower, newLayer(t, "run.sh", "new", ".wh.gone", "", "dir/.wh.gone", "", ".wh.all", ""), lower,
		newLayer(t, "run.sh", "newest", ".wh.gone", "", ".wh.all", ""))
	got, err := unpacked(t, &images{log: quiet()}, serve(t, img, "", nil)+"/an/image:v1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"run.sh": "newest", "dir/gone": "x", "dir/kept": "y"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A layer that matches its digest but is no archive must fail.
func TestStage_UnreadableLayer(t *testing.T) {
	img, _ := imageOf(t, rawLayer(t, bytes.Repeat([]byte("no archive "), 100)), newLayer(t, "run.sh", "new"))
	dir := t.TempDir()
	tag, err := name.NewTag("index.docker.io/rancher/x:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(filepath.Join(dir, "x.tar"), tag, img); err != nil {
		t.Fatal(err)
	}
	for from, image := range map[string]string{"a registry": serve(t, img, "", nil) + "/an/image:v1",
		"an archive": "rancher/x:v1"} {
		if _, err := unpacked(t, &images{dir: dir, log: quiet()}, image); err == nil ||
			!strings.Contains(err.Error(), "reading tar") {
			t.Errorf("image from %s: %v", from, err)
		}
	}
}
