package applyset

import (
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/apply"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Mark writes on an object that it belongs to a set, for the object whose creation decides who may have its name: it has to
// be made, by a plain create, before the set is applied. Applying the set then takes it as its own.
func Mark(obj metav1.Object, setID string, owner schema.GroupVersionKind, namespace, name string) error {
	labels, annotations, err := markOf(setID, owner, namespace, name)
	if err != nil {
		return err
	}
	obj.SetLabels(merged(obj.GetLabels(), labels))
	obj.SetAnnotations(merged(obj.GetAnnotations(), annotations))
	return nil
}

// Marked tells whether an object belongs to a set.
func Marked(obj metav1.Object, setID string, owner schema.GroupVersionKind, namespace, name string) (bool, error) {
	labels, _, err := markOf(setID, owner, namespace, name)
	return err == nil && obj.GetLabels()[apply.LabelHash] == labels[apply.LabelHash], err
}

func markOf(setID string, owner schema.GroupVersionKind, namespace, name string) (labels, annotations map[string]string, err error) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.SetGroupVersionKind(owner)
	labels, annotations, err = apply.GetLabelsAndAnnotations(setID, object)
	if err != nil {
		return nil, nil, fmt.Errorf("apply set %s: %w", setID, err)
	}
	return labels, annotations, nil
}
