package capi

import (
	"embed"
	"fmt"
	"io/fs"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/drover-io/drover/pkg/crds"
)

//go:embed crds/*.yaml
var definitions embed.FS

// Definitions returns the CRDs of Cluster API's core, with the only version that is served here. "make generate" writes
// them from the pinned module.
func Definitions() ([]*apiextv1.CustomResourceDefinition, error) {
	tree, err := fs.Sub(definitions, "crds")
	if err != nil {
		return nil, fmt.Errorf("open definitions of Cluster API: %w", err)
	}
	list, err := crds.Read(tree)
	if err != nil {
		return nil, fmt.Errorf("read definitions of Cluster API: %w", err)
	}
	return list, nil
}
