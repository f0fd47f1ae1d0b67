package dynamicschema

import (
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
)

// snapshot is what is known of one schema.
type snapshot struct {
	name string
	// schema is nil when it is gone or going.
	schema *mgmtv3.DynamicSchema
	// undecided is true while there is no list of drivers.
	undecided bool
	// driver is the name that kinds are made of, empty when the schema has none.
	driver string
	// existing are the definitions of the schema that there are.
	existing []*apiextv1.CustomResourceDefinition
	// use is whether there are objects of them.
	use use
}

// use is what the caches say about the objects of a driver's kinds.
type use int

const (
	unused use = iota
	// used kinds have objects.
	used
	// unknown is the use of kinds whose caches are not filled yet.
	unknown
)

func (h *handler) gather(name string, obj *mgmtv3.DynamicSchema) (snapshot, error) {
	s := snapshot{name: name}
	if obj != nil && obj.DeletionTimestamp == nil {
		s.schema = obj
		list, err := h.schemas.Get(driverschema.NodeTemplateConfigs.Name)
		if apierrors.IsNotFound(err) {
			s.undecided = true // whoever took it away: drivers write it again, and then all schemas are looked at
			return s, nil
		}
		if err != nil {
			return s, fmt.Errorf("read the list of drivers: %w", err)
		}
		s.driver, _ = driverschema.BaseName(name, list.Spec)
		if driverschema.ValidName(s.driver) != nil {
			s.driver = "" // no kind can be called so
		}
	}
	all, err := h.crds.List(labels.Everything())
	if err != nil {
		return s, fmt.Errorf("list definitions: %w", err)
	}
	for _, crd := range all {
		if ownerOf(crd) == name {
			s.existing = append(s.existing, crd)
			s.use = max(s.use, h.useOf(crd))
		}
	}
	return s, nil
}

// useOf is unused only when it is certain that the caches hold no object of the kind.
func (h *handler) useOf(crd *apiextv1.CustomResourceDefinition) use {
	is := unused
	for _, gvk := range servedKinds(crd) {
		if !h.Objects.Synced(gvk) {
			return unknown
		}
		objects, err := h.Objects.List(gvk, "", labels.Everything())
		if err != nil {
			return unknown
		}
		if len(objects) > 0 {
			is = used
		}
	}
	return is
}

func servedKinds(crd *apiextv1.CustomResourceDefinition) (kinds []schema.GroupVersionKind) {
	for _, version := range crd.Spec.Versions {
		if version.Served {
			kinds = append(kinds, schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind})
		}
	}
	return kinds
}

// Annotations by which an apply set marks its objects (docs/wire/names.md#apply-sets).
const (
	setAnnotation       = "objectset.rio.cattle.io/id"
	ownerKindAnnotation = "objectset.rio.cattle.io/owner-gvk"
	ownerNameAnnotation = "objectset.rio.cattle.io/owner-name"
)

// ownerOf is the schema that a definition was made from.
func ownerOf(crd *apiextv1.CustomResourceDefinition) string {
	if crd.Annotations[setAnnotation] != handlerName || crd.Annotations[ownerKindAnnotation] != schemaKind.String() {
		return ""
	}
	return crd.Annotations[ownerNameAnnotation]
}
