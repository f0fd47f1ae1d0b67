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

// act installs the definitions of a driver, or deletes those that nothing needs any more. It returns what is known of the use
// of definitions that are kept only because there are, or may be, objects of their kinds.
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

// lastLook asks the API server itself whether there are objects of the definitions. The caches may not have heard yet of one that
// was made a moment ago, and with its definition it would be lost.
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

// withoutStatus takes the status, which the Go type always writes and which is the API server's, out of definitions.
func withoutStatus(crds []*apiextv1.CustomResourceDefinition) ([]runtime.Object, error) {
	objects := make([]runtime.Object, 0, len(crds))
	for _, crd := range crds {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		if err != nil {
			return nil, fmt.Errorf("encode definition %s: %w", crd.Name, err)
		}
		delete(content, "status")
		object := &unstructured.Unstructured{Object: content}
		unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
		objects = append(objects, object)
	}
	return objects, nil
}
