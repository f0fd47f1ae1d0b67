package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// tagAnnotation and nameAnnotation are the name of an image in a layout. skopeo reads the first, containerd the
	// second.
	tagAnnotation  = "org.opencontainers.image.ref.name"
	nameAnnotation = "io.containerd.image.name"
	// titleAnnotation is the file name of a bill of materials' layer.
	titleAnnotation = "org.opencontainers.image.title"

	defaultRegistry = "docker.io"
	assembler       = "scripts/image"
)

// WriteLayout assembles one image of the repository in source by its Dockerfile, and writes it with its bills of
// materials to a folder below layouts. It returns the image's digest.
func WriteLayout(source, layouts string, image Image, build Build) (v1.Hash, error) {
	called, err := name.NewTag(defaultRegistry + "/" + image.Repository + ":" + build.Version)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("version %q cannot be a tag: %w", build.Version, err)
	}
	assembled, err := assemble(source, image, build)
	if err != nil {
		return v1.Hash{}, err
	}
	dir := filepath.Join(layouts, image.Name)
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, err
	}
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	platform := &v1.Platform{OS: "linux", Architecture: build.Architecture}
	err = written.AppendImage(assembled, layout.WithPlatform(*platform), layout.WithAnnotations(map[string]string{
		tagAnnotation: build.Version, nameAnnotation: defaultRegistry + "/" + image.Repository + ":" + called.TagStr(),
	}))
	if err != nil {
		return v1.Hash{}, err
	}
	for _, program := range image.Programs {
		materials, err := billOf(source, image, program, assembled)
		if err != nil {
			return v1.Hash{}, err
		}
		if err := written.AppendImage(materials); err != nil {
			return v1.Hash{}, err
		}
	}
	return assembled.Digest()
}

func assemble(source string, image Image, build Build) (v1.Image, error) {
	dockerfile, err := os.ReadFile(filepath.Join(source, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	stage, err := ParseStage(bytes.NewReader(dockerfile), image.Name,
		map[string]string{"VERSION": build.Version, "REVISION": build.Revision})
	if err != nil {
		return nil, err
	}
	files, err := Tree(source, stage.Steps)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		out, in := io.Pipe()
		go func() { in.CloseWithError(files.Archive(in, build.Created)) }()
		return out, nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: build.Created}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	out, err := mutate.Append(base,
		mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: assembler}})
	if err != nil {
		return nil, err
	}
	config, err := out.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created, config.Config = build.Architecture, "linux", created, stage.Config
	return mutate.ConfigFile(out, config)
}

// billOf returns the bill of materials of a program as an artifact that refers to its image, for tools that do not read
// the image's files.
func billOf(source string, image Image, program string, of v1.Image) (v1.Image, error) {
	content, err := os.ReadFile(filepath.Join(source, rootsDirectory, image.Name, sbomDirectory, program+sbomSuffix))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomMediaType)
	out, err := mutate.Append(base, mutate.Addendum{
		Layer:       static.NewLayer(content, sbomMediaType),
		MediaType:   sbomMediaType,
		Annotations: map[string]string{titleAnnotation: program + sbomSuffix},
	})
	if err != nil {
		return nil, err
	}
	subject, err := partial.Descriptor(of)
	if err != nil {
		return nil, err
	}
	referring, ok := mutate.Subject(out, *subject).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("the bill of materials of %s became no image", program)
	}
	return referring, nil
}
