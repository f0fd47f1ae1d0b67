package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
)

// downloaded is an image whose layers are files. The agent unpacks an image only after it has downloaded and verified
// all of it. A layer's digest can be checked only at its end.
type downloaded struct {
	v1.Image
	layers []v1.Layer
}

func (d downloaded) Layers() ([]v1.Layer, error) { return d.layers, nil }

// download fetches the layers of an image into a directory. It skips layers that are already there, for example from
// another registry.
func download(img v1.Image, dir string) (v1.Image, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, fmt.Errorf("list layers: %w", err)
	}
	out := downloaded{Image: img}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return nil, fmt.Errorf("read digest of a layer: %w", err)
		}
		path := filepath.Join(dir, digest.Hex)
		if !exists(path) {
			if err := fetch(layer, path); err != nil {
				return nil, fmt.Errorf("download layer %s: %w", digest, err)
			}
		}
		stored, err := partial.CompressedToLayer(blob{Layer: layer, path: path})
		if err != nil {
			return nil, err
		}
		out.layers = append(out.layers, stored)
	}
	return out, nil
}

// fetch writes a layer to a file. The file remains only if the layer is complete and matches its digest.
func fetch(layer v1.Layer, path string) error {
	content, err := layer.Compressed() // fails at its end when the digest differs
	if err != nil {
		return err
	}
	defer content.Close()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
	}
	return err
}

// blob is a layer whose compressed content is in a file.
type blob struct {
	v1.Layer
	path string
}

func (b blob) Compressed() (io.ReadCloser, error) { return os.Open(b.path) }
