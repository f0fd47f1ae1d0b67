package applyset

import (
	"context"
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/apply"
	"github.com/rancher/wrangler/v3/pkg/objectset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/drover-io/drover/pkg/decide/naming"
	"github.com/drover-io/drover/pkg/decide/topology"
)

// Purge deletes the objects of the set that the caches contain. The owner may be deleted already: only its kind,
// namespace and name count.
func (s *Set) Purge(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
	kinds []schema.GroupVersionKind) (Result, error) {
	gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	gone.SetGroupVersionKind(owner)
	return s.run(ctx, identity{setID: setID, owner: gone, ownerNamespace: namespace}, kinds, nil)
}

// PurgeLive is Purge with live reads instead of caches. It is for the last cleanup of a set without owner references,
// because caches may lack a new object, which would then remain forever. The kinds need no caches. A kind that is not
// served has no objects. It also removes the finalizers of a former manager (topology.FormerFinalizers).
func (s *Set) PurgeLive(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
	kinds []schema.GroupVersionKind) error {
	if err := s.deleteLive(ctx, setID, Selector(setID, owner, namespace, name).Add(pruned), kinds); err != nil {
		return err
	}
	return s.End(setID, owner, namespace, name)
}

// End forgets a set whose owner is deleted and whose objects are garbage-collected with it. It writes nothing.
func (s *Set) End(setID string, owner schema.GroupVersionKind, namespace, name string) error {
	s.settled.forget(naming.ApplySet(setID, owner.String(), name, namespace))
	gone := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	gone.SetGroupVersionKind(owner)
	// wrangler keeps a rate limiter for each set until an apply without objects. Without kinds it searches for nothing.
	if err := s.apply.WithSetID(setID).WithOwner(gone).Apply(objectset.NewObjectSet()); err != nil {
		return fmt.Errorf("end set %s: %w", setID, err)
	}
	return nil
}

// PurgeKept is PurgeLive for objects that the set kept because of their label objectset.rio.cattle.io/prune.
func (s *Set) PurgeKept(ctx context.Context, setID string, owner schema.GroupVersionKind, namespace, name string,
	kinds []schema.GroupVersionKind) error {
	return s.deleteLive(ctx, setID, Selector(setID, owner, namespace, name), kinds)
}

// pruned excludes objects that a set keeps.
var pruned = func() labels.Requirement {
	requirement, err := labels.NewRequirement(apply.LabelPrune, selection.NotEquals, []string{"false"})
	utilruntime.Must(err)
	return *requirement
}()

func (s *Set) deleteLive(ctx context.Context, setID string, selector labels.Selector,
	kinds []schema.GroupVersionKind) error {
	for _, gvk := range kinds {
		resource, _ := meta.UnsafeGuessKindToResource(gvk) // the kinds of sets have regular plurals
		client := s.opts.Dynamic.Resource(resource)
		left, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("apply set %s: list remaining %s: %w", setID, resource.Resource, err)
		}
		for i := range left.Items {
			obj := &left.Items[i]
			err := deleteOne(ctx, client.Namespace(obj.GetNamespace()), gvk.GroupKind(), obj)
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("apply set %s: delete %s: %w", setID,
					describe(resource.Resource, obj.GetNamespace(), obj.GetName()), err)
			}
		}
	}
	return nil
}

// deleteOne deletes an object of an owner that is being removed. It first removes the finalizers of a former manager,
// which no program would remove later.
func deleteOne(ctx context.Context, client dynamic.ResourceInterface, kind schema.GroupKind,
	obj *unstructured.Unstructured) error {
	if finalizers := topology.FormerFinalizers(kind, obj); len(finalizers) > 0 {
		patch, err := topology.ReleasePatch(obj, finalizers...)
		if err != nil {
			return err
		}
		if _, err := client.Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	if obj.GetDeletionTimestamp() != nil {
		return nil
	}
	return client.Delete(ctx, obj.GetName(),
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(obj.GetUID()))})
}
