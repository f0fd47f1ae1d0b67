package processkubelet

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	corev1 "k8s.io/api/core/v1"
)

// file returns a layer entry that belongs to the user of the test, because only root may change owners.
func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644,
		PAXRecords: map[string]string{"TEST.content": content}}
}

func linkTo(kind byte, name, target string) tar.Header {
	return tar.Header{Typeflag: kind, Name: name, Linkname: target, Mode: 0o777}
}

func archive(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, header := range entries {
		content := header.PAXRecords["TEST.content"]
		header.PAXRecords, header.Size = nil, int64(len(content))
		if header.Uid == 0 {
			header.Uid, header.Gid = os.Getuid(), os.Getgid()
		}
		if err := writer.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// imageOf makes an image from layers, the lowest first.
func imageOf(t *testing.T, config v1.Config, layers ...[]byte) v1.Image {
	t.Helper()
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for _, content := range layers {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			t.Fatal(err)
		}
	}
	image, err := mutate.Config(image, config)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// writeLayout writes an image as scripts/image does, together with an entry that is not an image for any machine.
func writeLayout(t *testing.T, image v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(image,
		layout.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})); err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(imageOf(t, v1.Config{}, archive(t, file("bill", "of materials")))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestUnpack(t *testing.T) {
	dir := func(name string, mode int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}
	}
	tests := map[string]struct {
		layers  [][]tar.Header
		want    map[string]string // files by path, with mode and content; directories with mode
		wantErr string
	}{
		"files, directories and links": {
			layers: [][]tar.Header{{
				dir("./", 0o755), dir("./tmp/", 0o1777), file("./etc/motd", "hello"),
				linkTo(tar.TypeSymlink, "motd", "etc/motd"),
				linkTo(tar.TypeLink, "same", "etc/motd"), linkTo(tar.TypeSymlink, "out", "/etc/shadow"),
			}},
			want: map[string]string{
				"tmp": "dtrwxrwxrwx", "etc": "drwxr-xr-x", "etc/motd": "-rw-r--r-- hello",
				"motd": "Lrwxrwxrwx etc/motd", "same": "-rw-r--r-- hello",
				"out": "Lrwxrwxrwx /etc/shadow",
			},
		},
		"an upper layer replaces a file": {
			layers: [][]tar.Header{
				{file("a", "low"), file("d/b", "low"), file("d/c", "low"), linkTo(tar.TypeSymlink, "l", "a")},
				{file("a", "high"), dir("d", 0o700), file("d/b", "high"), file("l", "high")},
			},
			want: map[string]string{"a": "-rw-r--r-- high", "d": "drwx------", "d/b": "-rw-r--r-- high",
				"d/c": "-rw-r--r-- low", "l": "-rw-r--r-- high"},
		},
		"a name outside of the image": {layers: [][]tar.Header{{file("../x", "")}},
			wantErr: "../x: it leads outside of the image"},
		"an absolute name": {layers: [][]tar.Header{{file("/x", "")}},
			wantErr: "it leads outside of the image"},
		"through an absolute link": {
			layers: [][]tar.Header{{linkTo(tar.TypeSymlink, "l", "/tmp"), file("l/x", "")}}, wantErr: "l/x: "},
		"through a relative link": {layers: [][]tar.Header{{linkTo(tar.TypeSymlink, "l", ".."), file("l/x", "")}},
			wantErr: "escapes"},
		"a hard link to a file outside": {layers: [][]tar.Header{{linkTo(tar.TypeLink, "l", "../secret")}},
			wantErr: "escapes"},
		"a whiteout file": {layers: [][]tar.Header{{file("a", "")}, {file(".wh.a", "")}},
			wantErr: ".wh.a: it removes a file of another layer"},
		"a device": {layers: [][]tar.Header{{{Typeflag: tar.TypeBlock, Name: "sda"}}},
			wantErr: "sda: it must be a file, a directory or a link"},
		"a whiteout of a directory": {layers: [][]tar.Header{{file("d/a", "")}, {file("d/.wh..wh..opq", "")}},
			wantErr: "it removes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var layers [][]byte
			for _, entries := range test.layers {
				layers = append(layers, archive(t, entries...))
			}
			root := filepath.Join(t.TempDir(), "images", "root")
			err := unpackOnce(imageOf(t, v1.Config{}, layers...), root)
			if test.wantErr != "" {
				if _, found := os.Stat(root); err == nil || !strings.Contains(err.Error(), test.wantErr) ||
					found == nil {
					t.Errorf("error is %v, want %q and nothing unpacked", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, listed(t, root)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func listed(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		if info.Mode().IsRegular() {
			text += " " + content(t, path)
		} else if link, err := os.Readlink(path); err == nil {
			text += " " + link
		}
		out[strings.TrimPrefix(path, root+"/")] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Unpacking rejects a layout whose files do not match their digests. No other code checks them.
func TestUnpackOfADamagedLayout(t *testing.T) {
	image := imageOf(t, v1.Config{Entrypoint: []string{"/a"}}, archive(t, file("a", "right")))
	dir := writeLayout(t, image)
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	other, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive(t, file("a", "wrong")))), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := other.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "blobs", digest.Algorithm, digest.Hex), wrong, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fromLayout(Image{Layout: dir}, t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "its content has the checksum") {
		t.Errorf("error is %v, want an error about the checksum", err)
	}
}

func TestImageIsChosen(t *testing.T) {
	of := func(architecture, name string) v1.Descriptor {
		out := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: v1.Hash{Algorithm: "sha256", Hex: name}}
		if architecture != "" {
			out.Platform = &v1.Platform{OS: "linux", Architecture: architecture}
		}
		return out
	}
	index := of("amd64", "i")
	index.MediaType = types.OCIImageIndex
	tests := map[string]struct {
		manifests []v1.Descriptor
		want      string
	}{
		"with a bill of materials":     {[]v1.Descriptor{of("amd64", "a"), of("", "b")}, "a"},
		"among other architectures":    {[]v1.Descriptor{of("arm64", "a"), of("amd64", "b")}, "b"},
		"without a platform":           {[]v1.Descriptor{of("", "a")}, "a"},
		"none":                         {nil, ""},
		"only another architecture":    {[]v1.Descriptor{of("arm64", "a")}, ""},
		"two of the same architecture": {[]v1.Descriptor{of("amd64", "a"), of("amd64", "b")}, ""},
		"an index of images":           {[]v1.Descriptor{index}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := chooseImage(test.manifests, "amd64")
			if got.Digest.Hex != test.want || (err == nil) != (test.want != "") {
				t.Errorf("chosen is %q, %v; want %q", got.Digest.Hex, err, test.want)
			}
		})
	}
}

func TestImageIsConfigured(t *testing.T) {
	tests := map[string]struct {
		config    v1.Config
		container corev1.Container
		want      string // user, directory, command line
		wantErr   string
	}{
		"entrypoint": {
			config: v1.Config{Entrypoint: []string{"/e", "x"}, Cmd: []string{"y"}, User: "12:34", WorkingDir: "/w"},
			want:   "12:34 /w /e x y",
		},
		"arguments replace Cmd": {
			config:    v1.Config{Entrypoint: []string{"/e", "x"}, Cmd: []string{"y"}},
			container: corev1.Container{Args: []string{"z"}}, want: "0:0 / /e x z",
		},
		"a command replaces both": {
			config:    v1.Config{Entrypoint: []string{"/e", "x"}, Cmd: []string{"y"}},
			container: corev1.Container{Command: []string{"/c"}}, want: "0:0 / /c",
		},
		"no entrypoint": {config: v1.Config{Cmd: []string{"/c", "y"}}, want: "0:0 / /c y"},
		"only arguments": {config: v1.Config{Cmd: []string{"/c", "y"}},
			container: corev1.Container{Args: []string{"/a"}}, want: "0:0 / /a"},
		"no program": {wantErr: "an entrypoint or a command"},
		"a user by name": {config: v1.Config{Cmd: []string{"/c"}, User: "drover"},
			wantErr: `user is "drover"; it must be numbers`},
		"a user without a group": {config: v1.Config{Cmd: []string{"/c"}, User: "12"}, wantErr: "USER:GROUP"},
		"a negative user":        {config: v1.Config{Cmd: []string{"/c"}, User: "-1:0"}, wantErr: "USER:GROUP"},
		"a relative directory": {config: v1.Config{Cmd: []string{"/c"}, WorkingDir: "w"},
			wantErr: "does not begin with /"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			image, err := configured(Image{}, test.config)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error is %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			image.layout.root = "/image"
			spec, err := buildSpec(podWith(test.container), &test.container, image, somewhere, containerPlace{}, some)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(append([]string{userText(spec), spec.Dir, spec.Program}, spec.Args...), " ")
			if got != test.want {
				t.Errorf("it runs as %q, want %q", got, test.want)
			}
		})
	}
}

// TestContainerOfALayout: a container runs as the image's configuration says, with the image's files and none of the
// machine's.
func TestContainerOfALayout(t *testing.T) {
	needRoot(t)
	program := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v: %s", err, out)
	}
	binary := file("bin/tell", content(t, program))
	binary.Mode = 0o755
	home := tar.Header{Typeflag: tar.TypeDir, Name: "home/teller", Mode: 0o755, Uid: 1234, Gid: 2345}
	dir := writeLayout(t, imageOf(t, v1.Config{
		Entrypoint: []string{"tell", "--well"}, Env: []string{"PATH=/bin", "GREETING=hi"}, User: "1234:2345",
		WorkingDir: "/home/teller",
	}, archive(t, binary, home, file("etc/motd", "welcome"), file("etc/hostname", "image"))))
	images := filepath.Join(t.TempDir(), "images")
	image, err := fromLayout(Image{Layout: dir}, images)
	if err != nil {
		t.Fatal(err)
	}
	for name, readOnly := range map[string]bool{"writable files": false, "read-only files": true} {
		t.Run(name, func(t *testing.T) {
			got := tell(t, image, readOnly)
			want := map[string]any{
				"args": []any{"tell", "--well", "$(NO)"}, "greeting": "hi", "user": "1234:2345", "dir": "/home/teller",
				"writesRoot": false, "writesVolume": true, "writesHome": !readOnly,
				"/etc/motd": "welcome", "/etc/hostname": "p\n", "/etc/machine-id": "-",
				"root": []any{"bin", "dev", "etc", "home", "out", "proc", "sys"},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("output of the container (-want +got):\n%s", diff)
			}
		})
	}
	if again, err := fromLayout(Image{Layout: dir}, images); err != nil || again.id() != image.id() {
		t.Errorf("the second time it is %s, %v; want %s", again.id(), err, image.id())
	}
	unpacked := listed(t, image.layout.root)
	delete(unpacked, "bin/tell") // too long to print
	want := map[string]string{
		"bin": "drwxr-xr-x", "etc": "drwxr-xr-x", "etc/hostname": "-rw-r--r-- image", "etc/motd": "-rw-r--r-- welcome",
		"home":        "drwxr-xr-x",
		"home/teller": "drwxr-xr-x",
	}
	if diff := cmp.Diff(want, unpacked); diff != "" {
		t.Errorf("the image's files after its containers (-want +got):\n%s", diff)
	}
}

// tell runs a container of the image and returns what it prints.
func tell(t *testing.T, image Image, readOnly bool) map[string]any {
	t.Helper()
	dir := t.TempDir()
	place := containerPlace{attemptDir: filepath.Join(dir, "0"), logFile: filepath.Join(dir, "0", "output.log"),
		volumesDir: filepath.Join(dir, "volumes")}
	container := corev1.Container{
		Name: "c", Args: []string{"$(NO)"}, VolumeMounts: []corev1.VolumeMount{{Name: "out", MountPath: "/out"}},
		SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: &readOnly},
	}
	pod := podWith(container)
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "out", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	out := filepath.Join(place.volumesDir, "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := openDirectory(out, nil); err != nil {
		t.Fatal(err)
	}
	spec, err := buildSpec(pod, &container, image, somewhere, place, some)
	if err != nil {
		t.Fatal(err)
	}
	a := attempt{dir: place.attemptDir}
	if err := a.prepare(spec); err != nil {
		t.Fatal(err)
	}
	if exit := run(t, a); exit.ExitCode != 0 {
		t.Fatalf("ended as %+v: %s", exit, content(t, place.logFile))
	}
	got := map[string]any{}
	if err := json.Unmarshal([]byte(content(t, place.logFile)), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func userText(spec containerSpec) string {
	return strconv.Itoa(spec.UID) + ":" + strconv.Itoa(spec.GID)
}
