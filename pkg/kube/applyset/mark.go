package applyset

import (
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/apply"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// Annotations of an object that name the set that it belongs to, and the owner of that set
// (docs/wire/names.md#apply-sets).
const (
	SetIDAnnotation     = apply.LabelID
	OwnerKindAnnotation = apply.LabelGVK
	OwnerNameAnnotation = apply.LabelName
)

// HashLabel is the label of every object that belongs to a set (docs/wire/names.md#apply-sets).
const HashLabel = apply.LabelHash

// Mark adds the identity of a set to an object. It is for the object whose creation reserves a name, which must be
// created with a plain create before the set is applied. The later apply then treats it as part of the set.
func Mark(obj metav1.Object, setID string, owner schema.GroupVersionKind, namespace, name string) error {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.SetGroupVersionKind(owner)
	hash, identity, err := apply.GetLabelsAndAnnotations(setID, object)
	if err != nil {
		return fmt.Errorf("apply set %s: %w", setID, err)
	}
	obj.SetLabels(labels.Merge(obj.GetLabels(), hash))
	obj.SetAnnotations(labels.Merge(obj.GetAnnotations(), identity))
	return nil
}

// Marked reports whether an object belongs to a set.
func Marked(obj metav1.Object, setID string, owner schema.GroupVersionKind, namespace, name string) bool {
	return Selector(setID, owner, namespace, name).Matches(labels.Set(obj.GetLabels()))
}

// OwnerOf returns the id of the set that an object belongs to, and the namespace and name of its owner. All are empty
// for an object of no set.
func OwnerOf(obj metav1.Object) (setID, namespace, name string) {
	notes := obj.GetAnnotations()
	return notes[apply.LabelID], notes[apply.LabelNamespace], notes[apply.LabelName]
}

// Kept reports whether an object belongs to any set.
func Kept(obj metav1.Object) bool { return obj.GetLabels()[apply.LabelHash] != "" }

// Selector selects the objects of a set.
func Selector(setID string, owner schema.GroupVersionKind, namespace, name string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{apply.LabelHash: naming.ApplySet(setID, owner.String(), name, namespace)})
}
