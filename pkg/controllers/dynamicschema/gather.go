package dynamicschema

import (
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// snapshot holds the facts about one schema.
type snapshot struct {
	name string
	// schema is nil if it is absent or being deleted.
	schema *mgmtv3.DynamicSchema
	// undecided means that there is no list of drivers.
	undecided bool
	// driver is the name from which the kinds are named, "" if the schema gets no kinds.
	driver string
	// existing holds the schema's CRDs.
	existing []*apiextv1.CustomResourceDefinition
	// use says whether objects of these CRDs exist.
	use use
}

// use is what the caches say about objects of a driver's kinds.
type use int

const (
	unused use = iota
	// used kinds have objects.
	used
	// unknown means that the caches of the kinds are not filled yet.
	unknown
)

func (h *handler) gather(name string, obj *mgmtv3.DynamicSchema) (snapshot, error) {
	s := snapshot{name: name}
	if obj != nil && obj.DeletionTimestamp == nil {
		s.schema = obj
		list, err := h.schemas.Get(driverschema.NodeTemplateConfigs.Name)
		if apierrors.IsNotFound(err) {
			s.undecided = true // drivers write the list again, and that wakes all schemas
			return s, nil
		}
		if err != nil {
			return s, fmt.Errorf("read the list of drivers: %w", err)
		}
		s.driver, _ = driverschema.BaseName(name, list.Spec)
		if driverschema.ValidName(s.driver) != nil {
			s.driver = "" // the name is not valid for a kind
		}
	}
	all, err := h.crds.List(labels.Everything())
	if err != nil {
		return s, fmt.Errorf("list CRDs: %w", err)
	}
	for _, crd := range all {
		if ownerOf(crd) == name {
			s.existing = append(s.existing, crd)
			s.use = max(s.use, h.useOf(crd))
		}
	}
	return s, nil
}

// useOf returns unused only if the caches are filled and hold no object of the kind.
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
			kinds = append(kinds, schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name,
				Kind: crd.Spec.Names.Kind})
		}
	}
	return kinds
}

// ownerOf returns the name of the schema that a CRD was made from. It reads the annotations of an apply set
// (docs/wire/names.md#apply-sets).
func ownerOf(crd *apiextv1.CustomResourceDefinition) string {
	if crd.Annotations[applyset.SetIDAnnotation] != handlerName ||
		crd.Annotations[applyset.OwnerKindAnnotation] != schemaKind.String() {
		return ""
	}
	return crd.Annotations[applyset.OwnerNameAnnotation]
}
