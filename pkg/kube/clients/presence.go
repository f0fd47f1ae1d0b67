package clients

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/pkg/decide/fleet"
	"github.com/drover-io/drover/pkg/kube/sharedfields"
)

// Presence is whether objects of a kind can be read.
type Presence int

const (
	// Absent kinds have no established CRD.
	Absent Presence = iota
	// Filling kinds have one, but their cache is not filled yet. No event ends that.
	Filling
	// Served kinds have a filled cache.
	Served
)

// Presence returns whether a kind with the given CRD can be read. A kind whose CRD is being deleted is absent.
func (d *Dynamic) Presence(gvk schema.GroupVersionKind, definition string) (Presence, error) {
	if !d.follows {
		return Absent, nil
	}
	crd, err := Optional(d.crds.Cache().Get(definition))
	switch {
	case err != nil:
		return Absent, fmt.Errorf("read CRD %s: %w", definition, err)
	case crd == nil || crd.DeletionTimestamp != nil || !established(crd):
		return Absent, nil
	case !d.Synced(gvk):
		return Filling, nil
	}
	return Served, nil
}

// AnyIn reports whether the cache of a kind has an object in a namespace. A kind that is not served has none.
func (d *Dynamic) AnyIn(gvk schema.GroupVersionKind, namespace string) bool {
	kind, err := d.kind(gvk)
	if err != nil {
		return false
	}
	found, err := kind.informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	return err == nil && len(found) > 0
}

// transformOf returns the function that makes the objects of a kind smaller before its cache keeps them. Of the files
// in a Bundle the cache keeps a checksum, which is all that Drover compares.
func transformOf(gvk schema.GroupVersionKind) cache.TransformFunc {
	if gvk != fleet.BundleKind {
		return sharedfields.Transform
	}
	return func(object any) (any, error) {
		if bundle, ok := object.(*unstructured.Unstructured); ok {
			fleet.DropFiles(bundle)
		}
		return sharedfields.Transform(object)
	}
}
