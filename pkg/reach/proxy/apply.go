package proxy

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// FieldManager owns what Drover applies in clusters.
const FieldManager = "drover"

// Apply applies one object in a cluster. Errors name the object and include none of its content.
func Apply(ctx context.Context, client rest.Interface, object runtime.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("encode an object: %w", err)
	}
	unstructured.RemoveNestedField(content, "status")
	body, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode an object: %w", err)
	}
	applied := unstructured.Unstructured{Object: content}
	resource, _ := meta.UnsafeGuessKindToResource(applied.GroupVersionKind())
	path := []string{"/api", resource.Version}
	if resource.Group != "" {
		path = []string{"/apis", resource.Group, resource.Version}
	}
	if applied.GetNamespace() != "" {
		path = append(path, "namespaces", applied.GetNamespace())
	}
	err = client.Patch(types.ApplyPatchType).AbsPath(append(path, resource.Resource, applied.GetName())...).
		Param("fieldManager", FieldManager).Param("force", "true").Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", applied.GetKind(), applied.GetName(), err)
	}
	return nil
}
