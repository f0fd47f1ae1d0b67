package dynamicschema

import (
	"fmt"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/applyset"
	"github.com/drover-io/drover/pkg/driverschema"
)

// act installs the definitions of a driver, or deletes those that nothing needs any more. It returns true when definitions
// are kept only because there are objects of their kinds.
func (h *handler) act(s snapshot) (kept bool, err error) {
	kinds := []schema.GroupVersionKind{definitionKind}
	if s.driver == "" {
		if len(s.existing) == 0 || s.used {
			return s.used, nil
		}
		_, err := h.Apply.Purge(h.ctx, handlerName, schemaKind, "", s.name, kinds)
		return false, err
	}
	objects, err := withoutStatus(driverschema.CRDs(s.driver, s.schema.Spec))
	if err != nil {
		return false, err
	}
	_, err = h.Apply.Apply(h.ctx, handlerName, s.schema, applyset.NoOwnerRef, kinds, objects)
	return false, err
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
