package processkubelet

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// layoutImage is what an image from a layout has that a local program has not.
type layoutImage struct {
	// id names the image by its digest.
	id string
	// root is the directory with its files. Empty is an image that a local program stands for.
	root string
	// group is the numeric group id of its user.
	group int64
	// command follows Program and Args when a container has no arguments of its own.
	command []string
}

// fromLayout completes an entry of the table that names a layout: everything but the files the layout's image says itself. Its files are
// unpacked below the directory images, once for each digest.
func fromLayout(entry Image, images string) (Image, error) {
	found, err := openLayout(entry.Layout)
	if err != nil {
		return Image{}, fmt.Errorf("layout %s: %w", entry.Layout, err)
	}
	config, err := found.ConfigFile()
	if err != nil {
		return Image{}, fmt.Errorf("layout %s: %w", entry.Layout, err)
	}
	image, err := configured(entry, config.Config)
	if err != nil {
		return Image{}, fmt.Errorf("layout %s: %w", entry.Layout, err)
	}
	digest, err := found.Digest()
	if err != nil {
		return Image{}, fmt.Errorf("layout %s: %w", entry.Layout, err)
	}
	image.layout.id = entry.Layout + "@" + digest.String()
	image.layout.root = filepath.Join(images, digest.Algorithm+"-"+digest.Hex)
	if err := unpackOnce(found, image.layout.root); err != nil {
		return Image{}, fmt.Errorf("layout %s: %w", entry.Layout, err)
	}
	return image, nil
}

func openLayout(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	chosen, err := chooseImage(manifest.Manifests, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	return index.Image(chosen.Digest)
}

// chooseImage finds the image for this machine. Others are for other machines, or are no images: bills of materials have no platform. An
// image that is alone need not say its platform.
func chooseImage(manifests []v1.Descriptor, architecture string) (v1.Descriptor, error) {
	var found []v1.Descriptor
	for _, descriptor := range manifests {
		platform := descriptor.Platform
		if platform != nil && platform.OS == "linux" && platform.Architecture == architecture || platform == nil && len(manifests) == 1 {
			found = append(found, descriptor)
		}
	}
	if len(found) != 1 || !found[0].MediaType.IsImage() {
		return v1.Descriptor{}, fmt.Errorf("%d of its %d manifests are of an image for linux/%s, want one", len(found), len(manifests), architecture)
	}
	return found[0], nil
}

// configured fills an entry with what the configuration of its image says.
func configured(entry Image, config v1.Config) (Image, error) {
	if len(config.Entrypoint)+len(config.Cmd) == 0 {
		return Image{}, errors.New("the image names no program")
	}
	var err error
	if entry.User, entry.layout.group, err = userOf(config.User); err != nil {
		return Image{}, err
	}
	if len(config.Entrypoint) > 0 {
		entry.Program, entry.Args = config.Entrypoint[0], config.Entrypoint[1:]
	}
	entry.Env, entry.WorkingDir, entry.layout.command = config.Env, config.WorkingDir, config.Cmd
	if entry.WorkingDir != "" && !filepath.IsAbs(entry.WorkingDir) {
		return Image{}, fmt.Errorf("the image's working directory %q does not begin with /", entry.WorkingDir)
	}
	return entry, nil
}

// userOf reads the user of an image. Names would have to be looked up in the image, and Kubernetes takes none for images that may not run
// as root.
func userOf(user string) (uid, gid int64, err error) {
	if user == "" {
		return 0, 0, nil
	}
	first, second, ok := strings.Cut(user, ":")
	u, errUser := strconv.ParseUint(first, 10, 31)
	g, errGroup := strconv.ParseUint(second, 10, 31)
	if !ok || errUser != nil || errGroup != nil {
		return 0, 0, fmt.Errorf("the image's user is %q; this node wants numbers, USER:GROUP", user)
	}
	return int64(u), int64(g), nil
}
