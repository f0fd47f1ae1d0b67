package dynamicschema

import (
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

// act installs a driver's CRDs, or deletes those that are no longer needed. For CRDs that stay only because objects
// exist or may exist, it returns their use.
func (h *handler) act(s snapshot) (keptFor use, err error) {
	kinds := []schema.GroupVersionKind{definitionKind}
	if s.driver == "" {
		if len(s.existing) == 0 || s.use != unused {
			return s.use, nil
		}
		if anyLeft, err := h.lastLook(s.existing); err != nil || anyLeft {
			return used, err
		}
		_, err := h.Apply.Purge(h.ctx, handlerName, schemaKind, "", s.name, kinds)
		return unused, err
	}
	objects, err := withoutStatus(driverschema.CRDs(s.driver, s.schema.Spec))
	if err != nil {
		return unused, err
	}
	_, err = h.Apply.Apply(h.ctx, handlerName, s.schema, applyset.NoOwnerRef, kinds, objects)
	return unused, err
}

// lastLook asks the API server whether objects of the CRDs exist. The caches may miss a recent object, and deleting the
// CRD would delete it.
func (h *handler) lastLook(crds []*apiextv1.CustomResourceDefinition) (anyLeft bool, err error) {
	for _, crd := range crds {
		for _, gvk := range servedKinds(crd) {
			if anyLeft, err = h.Objects.AnyLive(h.ctx, gvk); err != nil || anyLeft {
				return anyLeft, err
			}
		}
	}
	return false, nil
}

// withoutStatus removes the status from CRDs. The Go type always writes it, but it belongs to the API server.
func withoutStatus(crds []*apiextv1.CustomResourceDefinition) ([]runtime.Object, error) {
	objects := make([]runtime.Object, 0, len(crds))
	for _, crd := range crds {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			return nil, fmt.Errorf("encode CRD %s: %w", crd.Name, err)
		}
		delete(content, "status")
		object := &unstructured.Unstructured{Object: content}
		unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
		objects = append(objects, object)
	}
	return objects, nil
}
