package memkube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var namespaces = schema.GroupResource{Resource: "namespaces"}

func (s *Server) addNamespace(name string) {
	obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
	_, err := s.insert(s.tables[namespaces], "", obj, false)
	must(err)
}

func admitNamespace(obj, current *unstructured.Unstructured) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = obj.GetName()
	obj.SetLabels(labels)
	if current == nil {
		must(unstructured.SetNestedStringSlice(obj.Object, []string{string(corev1.FinalizerKubernetes)}, "spec",
			"finalizers"))
		must(unstructured.SetNestedField(obj.Object, string(corev1.NamespaceActive), "status", "phase"))
	}
}

// checkNamespace rejects new objects in a namespace that does not exist or is being deleted.
func (s *Server) checkNamespace(t *table, obj *unstructured.Unstructured) error {
	it := s.tables[namespaces].items[keyOf("", obj.GetNamespace())]
	if it == nil {
		return apierrors.NewNotFound(namespaces, obj.GetNamespace())
	}
	if it.obj.GetDeletionTimestamp() != nil {
		err := apierrors.NewForbidden(t.gr, obj.GetName(), errTerminating)
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: "namespace is being terminated",
			Field: "metadata.namespace",
		})
		return err
	}
	return nil
}

type terminating struct{}

func (terminating) Error() string {
	return "unable to create new content in namespace because it is being terminated"
}

var errTerminating error = terminating{}

// terminateNamespace deletes the content of a namespace, and then the namespace.
func (s *Server) terminateNamespace(t *table, key string, next *unstructured.Unstructured) *item {
	if next.GetDeletionTimestamp() == nil {
		stamp := metav1.NewTime(now())
		next.SetDeletionTimestamp(&stamp)
		must(unstructured.SetNestedField(next.Object, string(corev1.NamespaceTerminating), "status", "phase"))
	}
	it := s.put(t, key, next)
	for _, gr := range s.sortedTables() {
		content := s.tables[gr]
		if content == nil || !content.namespaced {
			continue
		}
		for _, k := range sortedKeys(content.items) {
			if namespace, _ := splitKey(k); namespace == next.GetName() && content.items[k] != nil &&
				content.items[k].obj.GetDeletionTimestamp() == nil {
				s.startDeletion(content, k, content.items[k].obj, metav1.DeletePropagationBackground)
			}
		}
	}
	s.finishNamespace(next.GetName())
	return it
}

// finishNamespace removes a deleted namespace once it is empty.
func (s *Server) finishNamespace(name string) {
	t := s.tables[namespaces]
	it := t.items[keyOf("", name)]
	if it == nil || it.obj.GetDeletionTimestamp() == nil || len(it.obj.GetFinalizers()) > 0 || s.hasContent(name) {
		return
	}
	s.remove(t, keyOf("", name), it.obj)
}

func (s *Server) hasContent(namespace string) bool {
	for _, t := range s.tables {
		if !t.namespaced {
			continue
		}
		for key := range t.items {
			if in, _ := splitKey(key); in == namespace {
				return true
			}
		}
	}
	return false
}

// holdsNamespace reports whether the object is a namespace with content.
func (s *Server) holdsNamespace(t *table, obj *unstructured.Unstructured) bool {
	return t.gr == namespaces && s.hasContent(obj.GetName())
}

func (s *Server) sortedTables() []schema.GroupResource {
	grs := make([]schema.GroupResource, 0, len(s.tables))
	for gr := range s.tables {
		grs = append(grs, gr)
	}
	slices.SortFunc(grs, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return grs
}
