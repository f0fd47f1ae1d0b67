package clients

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Live reads an object from the API server.
func (d *Dynamic) Live(ctx context.Context, gvk schema.GroupVersionKind, namespace,
	name string) (*unstructured.Unstructured, error) {
	client, err := d.clientFor(gvk, namespace)
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, name, metav1.GetOptions{})
}

// AnyLive asks the API server whether any object of the kind exists, in any namespace.
func (d *Dynamic) AnyLive(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	client, err := d.clientFor(gvk, metav1.NamespaceAll)
	if err != nil {
		return false, err
	}
	list, err := client.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return false, fmt.Errorf("list one %s: %w", gvk.Kind, err)
	}
	return len(list.Items) > 0, nil
}

// Create creates an object.
func (d *Dynamic) Create(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client, err := d.clientFor(obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	return client.Create(ctx, obj, metav1.CreateOptions{})
}

// Update writes an object without its status.
func (d *Dynamic) Update(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client, err := d.clientFor(obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	return client.Update(ctx, obj, metav1.UpdateOptions{})
}

// UpdateStatus writes the status of an object.
func (d *Dynamic) UpdateStatus(ctx context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured,
	error) {
	client, err := d.clientFor(obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	return client.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
}

// Patch patches an object, or a subresource of it.
func (d *Dynamic) Patch(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, pt types.PatchType,
	data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	client, err := d.clientFor(gvk, namespace)
	if err != nil {
		return nil, err
	}
	return client.Patch(ctx, name, pt, data, metav1.PatchOptions{}, subresources...)
}

// Delete deletes an object. A missing object is not an error.
func (d *Dynamic) Delete(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) error {
	client, err := d.clientFor(gvk, namespace)
	if err != nil {
		return err
	}
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// DeleteUnchanged deletes an object if it still has the same version. Otherwise the error is a conflict. A missing
// object is not an error.
func (d *Dynamic) DeleteUnchanged(ctx context.Context, obj *unstructured.Unstructured) error {
	client, err := d.clientFor(obj.GroupVersionKind(), obj.GetNamespace())
	if err != nil {
		return err
	}
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	err = client.Delete(ctx, obj.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (d *Dynamic) clientFor(gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	kind, err := d.kind(gvk)
	if err != nil {
		return nil, err
	}
	if kind.namespaced {
		return d.client.Resource(kind.gvr).Namespace(namespace), nil
	}
	return d.client.Resource(kind.gvr), nil
}
