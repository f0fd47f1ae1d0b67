// Package installer reads a real RKE2 or K3s that a user gives by path, and writes the installer image and the image
// archives that a lab's machines need (docs/real-distributions.md). The lab's networks have no way out.
package installer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-io/drover/tests/testbed/distro"
)

// Release is one version of a distribution, as its makers publish it.
type Release struct {
	Runtime distro.Runtime
	// Version is the Kubernetes version, as v1.36.2+k3s1.
	Version string
	// Archives are the paths of the archives with container images.
	Archives []string

	// image is the path of an installer image. If it is empty, payload is packed into one.
	image   string
	payload []string
}

// installScript is the distribution's own script, from https://get.k3s.io or https://get.rke2.io.
const installScript = "install.sh"

var (
	archiveName = regexp.MustCompile(`images.*\.(tar|tar\.gz|tgz|tar\.bz2|tbz|tar\.lz4|tar\.zst|tzst)$`)
	imageName   = regexp.MustCompile(`system-agent-installer-(rke2|k3s).*\.(tar|tar\.gz|tgz)$`)
	imageTag    = regexp.MustCompile(
		`^(?:(?:index\.)?docker\.io/)?rancher/system-agent-installer-(?:rke2|k3s):(v\S+)-((?:k3s|rke2r)\d\S*)$`)
)

// layout is what a folder contains, by the names of its files.
type layout struct {
	runtime distro.Runtime
	// image is the installer image. If it is empty, payload are the files from which one is packed.
	image    string
	payload  []string
	archives []string
}

// layoutOf finds out what a folder with these files contains. Its errors name the missing download.
func layoutOf(names []string, architecture string) (layout, error) {
	var found layout
	var images []string
	for _, one := range names {
		switch {
		case imageName.MatchString(one):
			images = append(images, one)
		case archiveName.MatchString(one):
			found.archives = append(found.archives, one)
		}
	}
	k3s := "k3s"
	if architecture != "amd64" {
		k3s += "-" + architecture
	}
	rke2, sums := "rke2.linux-"+architecture+".tar.gz", "sha256sum-"+architecture+".txt"
	has := func(one string) bool { return slices.Contains(names, one) }
	archive := "k3s-airgap-images-" + architecture + ".tar.zst"
	switch {
	case len(images) > 1:
		return layout{}, fmt.Errorf("several installer images: %s; keep one", strings.Join(images, ", "))
	case len(images) == 1:
		found.image = images[0]
	case has(k3s) && has(rke2):
		return layout{}, fmt.Errorf("both %s and %s; use a folder for each", k3s, rke2)
	case has(k3s):
		found.runtime, found.payload = distro.K3s, []string{k3s, installScript}
	case has(rke2):
		found.runtime, found.payload = distro.RKE2, []string{rke2, sums, installScript}
		archive = "rke2-images.linux-" + architecture + ".tar.zst"
	default:
		return layout{}, fmt.Errorf("no %s, no %s and no installer image", k3s, rke2)
	}
	for _, one := range found.payload {
		if !has(one) {
			return layout{}, fmt.Errorf("no %s", one)
		}
	}
	if len(found.archives) == 0 {
		return layout{}, fmt.Errorf("no archive of container images, as %s", archive)
	}
	return found, nil
}

// Open reads the release at a path: a folder with the downloads, or an installer image with its archives next to it.
func Open(path string) (Release, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Release{}, fmt.Errorf("find installer: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return Release{}, fmt.Errorf("read installer: %w", err)
	}
	dir, only := path, ""
	if !info.IsDir() {
		if dir, only = filepath.Dir(path), filepath.Base(path); !imageName.MatchString(only) {
			return Release{}, fmt.Errorf("installer %s: the name of an installer image contains "+
				"system-agent-installer-rke2 or system-agent-installer-k3s and ends with .tar or .tar.gz", path)
		}
	}
	release, err := openFolder(dir, only)
	if err != nil {
		return Release{}, fmt.Errorf("installer %s: %w (docs/real-distributions.md lists the downloads)", path, err)
	}
	return release, nil
}

// openFolder reads a folder. It ignores installer images other than only, unless only is empty.
func openFolder(dir, only string) (Release, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Release{}, err
	}
	var names []string
	for _, entry := range entries {
		if only == "" || entry.Name() == only || !imageName.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	found, err := layoutOf(names, runtime.GOARCH)
	if err != nil {
		return Release{}, err
	}
	release := Release{Runtime: found.runtime, Archives: inFolder(dir, found.archives),
		payload: inFolder(dir, found.payload)}
	if found.image != "" {
		release.image = filepath.Join(dir, found.image)
		release.Version, err = versionOfImage(release.image)
	} else {
		release.Version, err = versionOfProgram(release.payload[0])
	}
	if err != nil {
		return Release{}, err
	}
	actual := distro.RuntimeOf(release.Version)
	if release.Runtime != "" && release.Runtime != actual {
		return Release{}, fmt.Errorf("%s is %s", filepath.Base(release.payload[0]), release.Version)
	}
	release.Runtime = actual
	return release, nil
}

func inFolder(dir string, names []string) []string {
	var paths []string
	for _, one := range names {
		paths = append(paths, filepath.Join(dir, one))
	}
	return paths
}

// versionOfImage returns the version in the tag of an installer image.
func versionOfImage(path string) (string, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return openTar(path) })
	if err != nil {
		return "", fmt.Errorf("read installer image: %w", err)
	}
	for _, one := range manifest {
		for _, tag := range one.RepoTags {
			if words := imageTag.FindStringSubmatch(tag); words != nil {
				return words[1] + "+" + words[2], nil
			}
		}
	}
	return "", errors.New("the installer image has no tag as rancher/system-agent-installer-k3s:v1.36.2-k3s1")
}
