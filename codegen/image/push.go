package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push copies every layout to a registry, under the repository names of the charts. It uses the credentials of docker
// login.
func Push(ctx context.Context, layouts, registry string, insecure bool, out io.Writer) error {
	for _, image := range images {
		if err := pushLayout(ctx, filepath.Join(layouts, image.Name), registry, insecure, out); err != nil {
			return fmt.Errorf("push %s: %w", image.Name, err)
		}
	}
	return nil
}

func pushLayout(ctx context.Context, dir, registry string, insecure bool, out io.Writer) error {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	target, err := targetOf(manifest, registry, insecure)
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, descriptor := range manifest.Manifests {
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			return err
		}
		var to name.Reference = target
		if descriptor.Annotations[nameAnnotation] == "" {
			to = target.Digest(descriptor.Digest.String())
		}
		if err := remote.Write(to, image, options...); err != nil {
			return err
		}
		fmt.Fprintln(out, to)
	}
	return nil
}

func targetOf(manifest *v1.IndexManifest, registry string, insecure bool) (name.Tag, error) {
	var options []name.Option
	if insecure {
		options = append(options, name.Insecure)
	}
	for _, descriptor := range manifest.Manifests {
		if called, ok := strings.CutPrefix(descriptor.Annotations[nameAnnotation], defaultRegistry+"/"); ok {
			return name.NewTag(strings.TrimSuffix(registry, "/")+"/"+called, options...)
		}
	}
	return name.Tag{}, errors.New("the layout names no image: make it with scripts/image")
}
