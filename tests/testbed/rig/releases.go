package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/pkg/local/localfile"
	"github.com/drover-io/drover/tests/testbed/distro"
	"github.com/drover-io/drover/tests/testbed/installer"
	"github.com/drover-io/drover/tests/testbed/lab"
)

// droverArchive is the file name of the archive with Drover's image.
const droverArchive = "drover-images.tar"

// distributionDir is the folder with everything from the rig's installers. Later runs do not need the user's paths.
func (o Options) distributionDir() string { return filepath.Join(o.Dir, "distribution") }

// keptRelease is a release in the rig's folder.
type keptRelease struct {
	Runtime distro.Runtime `json:"runtime"`
	Version string         `json:"version"`
	// Archives are file names in the folder of archives.
	Archives []string `json:"archives"`
}

// ErrOtherDistribution means that a rig was created with the stand-in and is now given real distributions.
var ErrOtherDistribution = errors.New("the machines run the stand-in; remove them first, or choose another folder")

// keepReleases copies what the installers contain into the rig's folder, and returns all releases that are there. The
// first is the one that was given first.
func (o Options) keepReleases(ctx context.Context) ([]keptRelease, error) {
	index := filepath.Join(o.distributionDir(), "releases.json")
	kept, err := readReleases(index)
	if err != nil {
		return nil, err
	}
	if len(kept) == 0 && len(o.Installers) > 0 {
		if _, err := os.Stat(filepath.Join(o.Dir, "lab", "machines")); err == nil {
			return nil, fmt.Errorf("%s: %w", o.Dir, ErrOtherDistribution)
		}
	}
	for _, path := range o.Installers {
		release, err := installer.Open(path)
		if err != nil {
			return nil, err
		}
		one, err := o.keepRelease(release)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(kept, func(k keptRelease) bool { return k.Version == one.Version }); i >= 0 {
			kept[i] = one
		} else {
			kept = append(kept, one)
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("encode releases: %w", err)
	}
	return kept, errors.Join(localfile.Write(index, data), o.keepDroverImage(ctx))
}

func readReleases(index string) ([]keptRelease, error) {
	data, err := os.ReadFile(index)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read releases: %w", err)
	}
	var kept []keptRelease
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, fmt.Errorf("decode releases: %w", err)
	}
	return kept, nil
}

// keepRelease copies one release. The names of archives get the version, because they are the same in every release.
func (o Options) keepRelease(release installer.Release) (keptRelease, error) {
	if err := release.WriteImage(filepath.Join(o.distributionDir(), "installers")); err != nil {
		return keptRelease{}, err
	}
	kept := keptRelease{Runtime: release.Runtime, Version: release.Version}
	for _, path := range release.Archives {
		name := release.Version + "-" + filepath.Base(path)
		if err := lab.Place(path, o.archive(name)); err != nil {
			return keptRelease{}, err
		}
		kept.Archives = append(kept.Archives, name)
	}
	return kept, nil
}

func (o Options) archive(name string) string {
	return filepath.Join(o.distributionDir(), "archives", name)
}

// keepDroverImage packs Drover's program as the image that the agent inside the cluster runs.
func (o Options) keepDroverImage(ctx context.Context) error {
	program := filepath.Join(o.Bin, "drover")
	out, err := exec.CommandContext(ctx, program, "version").Output() // drover VERSION
	if err != nil {
		return fmt.Errorf("ask Drover for its version: %w", err)
	}
	_, version, _ := bytes.Cut(bytes.TrimSpace(out), []byte(" "))
	info, err := os.Stat(program)
	if err != nil {
		return fmt.Errorf("read Drover's program: %w", err)
	}
	reference := "drover-io/drover:" + string(version)
	mark, want := o.archive(".drover"), reference+" "+info.ModTime().String()
	if have, err := os.ReadFile(mark); err == nil && string(have) == want {
		return nil
	}
	if err := installer.DroverImage(o.archive(droverArchive), program, reference); err != nil {
		return err
	}
	return localfile.Write(mark, []byte(want))
}

// imagesOnMachine is the folder from which a distribution imports container images.
func imagesOnMachine(runtime distro.Runtime) string {
	return "/var/lib/rancher/" + string(runtime) + "/agent/images"
}

// kubelets returns what machines need to run the releases, or nil without releases.
func (o Options) kubelets(kept []keptRelease) *lab.Kubelets {
	if len(kept) == 0 {
		return nil
	}
	kubelets := &lab.Kubelets{Archives: map[string]string{}}
	for _, release := range kept {
		images := imagesOnMachine(release.Runtime)
		for _, name := range append([]string{droverArchive}, release.Archives...) {
			kubelets.Archives[filepath.Join(images, name)] = o.archive(name)
		}
		config := "/etc/rancher/" + string(release.Runtime) + "/config.yaml.d/99-lab.yaml"
		if refusesCgroupV1(release.Version) && !slices.Contains(kubelets.CgroupV1Config, config) {
			kubelets.CgroupV1Config = append(kubelets.CgroupV1Config, config)
		}
	}
	return kubelets
}

// refusesCgroupV1 reports whether a kubelet of this version refuses control groups v1 by default.
func refusesCgroupV1(version string) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 3 {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && (parts[0] != "1" || minor >= 35)
}

// Release returns the first real release of a runtime, or of any runtime if it is empty. It returns "" if the stand-in
// runs.
func (r *Rig) Release(runtime distro.Runtime) string {
	for _, release := range r.releases {
		if runtime == "" || release.Runtime == runtime {
			return release.Version
		}
	}
	return ""
}
