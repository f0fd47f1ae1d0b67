package installer

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-io/drover/tests/testbed/distro"
)

func TestLayoutOf(t *testing.T) {
	k3s := []string{"install.sh", "k3s", "k3s-airgap-images-amd64.tar.zst"}
	rke2 := []string{"install.sh", "rke2-images.linux-amd64.tar.zst", "rke2.linux-amd64.tar.gz", "sha256sum-amd64.txt"}
	without := func(names []string, missing string) (left []string) {
		for _, one := range names {
			if one != missing {
				left = append(left, one)
			}
		}
		return left
	}
	for title, test := range map[string]struct {
		names        []string
		architecture string
		want         layout
		problem      string
	}{
		"a release of K3s": {names: k3s, want: layout{runtime: distro.K3s, payload: []string{"k3s", "install.sh"},
			archives: []string{"k3s-airgap-images-amd64.tar.zst"}}},
		"a release of K3s for arm64": {names: []string{"install.sh", "k3s-airgap-images-arm64.tar.gz", "k3s-arm64"},
			architecture: "arm64", want: layout{runtime: distro.K3s, payload: []string{"k3s-arm64", "install.sh"},
				archives: []string{"k3s-airgap-images-arm64.tar.gz"}}},
		"a release of RKE2 with more images": {names: append([]string{"my-images.tar"}, rke2...), want: layout{
			runtime: distro.RKE2, payload: []string{"rke2.linux-amd64.tar.gz", "sha256sum-amd64.txt", "install.sh"},
			archives: []string{"my-images.tar", "rke2-images.linux-amd64.tar.zst"}}},
		"an installer image needs no program": {
			names: []string{"k3s-airgap-images-amd64.tar", "system-agent-installer-k3s.tar"},
			want: layout{image: "system-agent-installer-k3s.tar",
				archives: []string{"k3s-airgap-images-amd64.tar"}}},
		"an empty folder":                {problem: "no k3s, no rke2.linux-amd64.tar.gz and no installer image"},
		"K3s without its install script": {names: without(k3s, "install.sh"), problem: "no install.sh"},
		"K3s without images": {names: without(k3s, "k3s-airgap-images-amd64.tar.zst"),
			problem: "no archive of container images, as k3s-airgap-images-amd64.tar.zst"},
		"RKE2 without checksums": {names: without(rke2, "sha256sum-amd64.txt"), problem: "no sha256sum-amd64.txt"},
		"RKE2 without images": {names: without(rke2, "rke2-images.linux-amd64.tar.zst"),
			problem: "no archive of container images, as rke2-images.linux-amd64.tar.zst"},
		"both distributions in one folder": {names: append(without(k3s, "install.sh"), rke2...),
			problem: "both k3s and rke2.linux-amd64.tar.gz; use a folder for each"},
		"two installer images": {names: []string{"system-agent-installer-k3s-a.tar",
			"system-agent-installer-k3s-b.tar"},
			problem: "several installer images: system-agent-installer-k3s-a.tar, " +
				"system-agent-installer-k3s-b.tar; keep one"},
	} {
		t.Run(title, func(t *testing.T) {
			architecture := test.architecture
			if architecture == "" {
				architecture = "amd64"
			}
			got, err := layoutOf(test.names, architecture)
			problem := ""
			if err != nil {
				problem = err.Error()
			}
			if diff := cmp.Diff(test.problem, problem); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(layout{})); err == nil && diff != "" {
				t.Errorf("layout (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseVersion(t *testing.T) {
	for output, want := range map[string]string{
		"k3s version v1.36.2+k3s1 (7ba3c0e1)\ngo version go1.26.1\n":        "v1.36.2+k3s1",
		"rke2 version v1.36.2+rke2r1 (7ba3c0e1)\ngo version go1.26.1 X:a\n": "v1.36.2+rke2r1",
		"k3s version v1.36.2-rc1+k3s1 (7ba3c0e1)\n":                         "v1.36.2-rc1+k3s1",
		"program version v1.36.3+k3s1 (stand-in)\n":                         "v1.36.3+k3s1",
	} {
		if got, err := parseVersion("k3s", output); err != nil || got != want {
			t.Errorf("%q has version %q (%v), want %q", output, got, err, want)
		}
	}
	if got, err := parseVersion("k3s", "Kubernetes v1.36.2\n"); err == nil {
		t.Errorf("a version of no distribution was accepted: %q", got)
	}
}

// architecture is that of the machine that runs the tests.
const architecture = runtime.GOARCH

// programFile is the name of K3s' program.
func programFile() string {
	if architecture == "amd64" {
		return "k3s"
	}
	return "k3s-" + architecture
}

// release writes the downloads of a K3s whose program is a shell script.
func release(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, content := range map[string]string{
		programFile(): "#!/bin/sh\necho k3s version v1.36.2+k3s1 '(7ba3c0e1)'\n",
		"install.sh":  "exit 0\n",
		"k3s-airgap-images-" + architecture + ".tar": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpen_PacksDownloadsIntoAnInstallerImage(t *testing.T) {
	dir := release(t)
	opened, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if opened.Runtime != distro.K3s || opened.Version != "v1.36.2+k3s1" || len(opened.Archives) != 1 {
		t.Errorf("the release is %+v", opened)
	}
	images := t.TempDir()
	if err := opened.WriteImage(images); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(images, "rancher-system-agent-installer-k3s-v1.36.2-k3s1.tar")
	tag, err := name.NewTag("rancher/system-agent-installer-k3s:v1.36.2-k3s1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tarball.ImageFromPath(image, &tag); err != nil {
		t.Errorf("the image lacks the tag of plans: %v", err)
	}

	// The same image can be given by path, with the archives next to it.
	moved := filepath.Join(dir, "system-agent-installer-k3s.tar")
	if err := os.Rename(image, moved); err != nil {
		t.Fatal(err)
	}
	again, err := Open(moved)
	if err != nil {
		t.Fatal(err)
	}
	if again.Version != opened.Version || again.image != moved || cmp.Diff(opened.Archives, again.Archives) != "" {
		t.Errorf("the release with an installer image is %+v", again)
	}
}

func TestOpen_NamesTheProblemAndThePath(t *testing.T) {
	dir := release(t)
	program := filepath.Join(dir, programFile())
	for want, content := range map[string]string{
		programFile() + " --version prints no version": "#!/bin/sh\necho hello\n",
		programFile() + " is v1.36.2+rke2r1":           "#!/bin/sh\necho v1.36.2+rke2r1\n",
	} {
		if err := os.WriteFile(program, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("got %v, want %q with %s", err, want, dir)
		}
	}
	if _, err := Open(filepath.Join(dir, "install.sh")); err == nil {
		t.Error("a file that is no installer image was accepted")
	}
}
