package clients

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// CreateStrict creates an object. The API server refuses fields that it does not know, and names them. Create drops
// them.
func (d *Dynamic) CreateStrict(ctx context.Context, obj *unstructured.Unstructured) error {
	client, err := d.clientFor(obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return err
	}
	_, err = client.Create(ctx, obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}

// PatchStrict applies a JSON patch to an object. The API server refuses fields that it does not know, and names them.
func (d *Dynamic) PatchStrict(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string,
	patch []byte) error {
	client, err := d.clientFor(gvk, namespace)
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, name, types.JSONPatchType, patch,
		metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict})
	return err
}
