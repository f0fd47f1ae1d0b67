package crds

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed yaml/*.yaml
var files embed.FS

// Generation is the number of the schemas of this build. It goes into the label drover.io/crd-version and grows with
// every release that changes a schema. An older Drover therefore does not change the definitions of a newer one.
const Generation = 1

// All returns the definitions of Drover's own kinds, sorted by name. The caller may change them.
func All() ([]*apiextv1.CustomResourceDefinition, error) {
	read, err := embedded()
	if err != nil {
		return nil, err
	}
	out := make([]*apiextv1.CustomResourceDefinition, 0, len(read))
	for _, crd := range read {
		out = append(out, crd.DeepCopy())
	}
	return out, nil
}

// embedded reads the files of this build once.
var embedded = sync.OnceValues(func() ([]*apiextv1.CustomResourceDefinition, error) { return Read(files) })

// Read decodes every file in the tree that ends in .yaml, one definition each, in the order of their paths. Unknown
// fields are an error.
func Read(tree fs.FS) ([]*apiextv1.CustomResourceDefinition, error) {
	var out []*apiextv1.CustomResourceDefinition
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		crd := &apiextv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return fmt.Errorf("decode %s: %w", path, err)
		}
		if crd.Name == "" || crd.Kind != "CustomResourceDefinition" {
			return fmt.Errorf("decode %s: not a CustomResourceDefinition with a name", path)
		}
		out = append(out, crd)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read custom resource definitions: %w", err)
	}
	return out, nil
}
