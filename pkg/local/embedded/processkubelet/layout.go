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

// layoutImage has the parts of a layout's image that a local program lacks.
type layoutImage struct {
	// id is the digest of the image.
	id string
	// root is the directory with the image's files. It is empty for a local program.
	root string
	// group is the numeric group ID of the image's user.
	group int64
	// command follows Program and Args when a container has no arguments of its own.
	command []string
}

// fromLayout completes a table entry with a layout. All fields except Files come from the layout's image. It unpacks
// the files below the directory images, once per digest.
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

// chooseImage returns the image for this machine. It skips images for other platforms and entries without a platform,
// such as bills of materials. A single image needs no platform.
func chooseImage(manifests []v1.Descriptor, architecture string) (v1.Descriptor, error) {
	var found []v1.Descriptor
	for _, descriptor := range manifests {
		platform := descriptor.Platform
		if platform != nil && platform.OS == "linux" && platform.Architecture == architecture || platform == nil &&
			len(manifests) == 1 {
			found = append(found, descriptor)
		}
	}
	if len(found) != 1 || !found[0].MediaType.IsImage() {
		return v1.Descriptor{}, fmt.Errorf("%d of its %d manifests are for linux/%s; want one",
			len(found), len(manifests), architecture)
	}
	return found[0], nil
}

// configured fills an entry from the configuration of its image.
func configured(entry Image, config v1.Config) (Image, error) {
	if len(config.Entrypoint)+len(config.Cmd) == 0 {
		return Image{}, errors.New("the image must have an entrypoint or a command")
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

// userOf parses the user of an image. It accepts only numeric IDs. Names need a lookup in the image, and Kubernetes
// rejects them too for images that may not run as root.
func userOf(user string) (uid, gid int64, err error) {
	if user == "" {
		return 0, 0, nil
	}
	first, second, ok := strings.Cut(user, ":")
	u, errUser := strconv.ParseUint(first, 10, 31)
	g, errGroup := strconv.ParseUint(second, 10, 31)
	if !ok || errUser != nil || errGroup != nil {
		return 0, 0, fmt.Errorf("the image's user is %q; it must be numbers, USER:GROUP", user)
	}
	return int64(u), int64(g), nil
}
