package applyset

import (
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/apply"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/decide/naming"
)

// Mark writes on an object that it belongs to a set, for the object whose creation decides who may have its name: it has to
// be made, by a plain create, before the set is applied. Applying the set then takes it as its own.
func Mark(obj metav1.Object, setID string, owner schema.GroupVersionKind, namespace, name string) error {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.SetGroupVersionKind(owner)
	hash, identity, err := apply.GetLabelsAndAnnotations(setID, object)
	if err != nil {
		return fmt.Errorf("apply set %s: %w", setID, err)
	}
	obj.SetLabels(merged(obj.GetLabels(), hash))
	obj.SetAnnotations(merged(obj.GetAnnotations(), identity))
	return nil
}

// Marked tells whether an object belongs to a set.
func Marked(obj metav1.Object, setID string, owner schema.GroupVersionKind, namespace, name string) bool {
	return Selector(setID, owner, namespace, name).Matches(labels.Set(obj.GetLabels()))
}

// Kept tells whether an object belongs to a set, whosever.
func Kept(obj metav1.Object) bool { return obj.GetLabels()[apply.LabelHash] != "" }

// Selector selects the objects of a set.
func Selector(setID string, owner schema.GroupVersionKind, namespace, name string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{apply.LabelHash: naming.ApplySet(setID, owner.String(), name, namespace)})
}
