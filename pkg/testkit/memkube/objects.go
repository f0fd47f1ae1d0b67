package memkube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Add stores objects as they are, including status, UID and deletion time. It fills in missing metadata and creates
// missing namespaces. Tests use it for their setup. The log does not contain it.
func (s *Server) Add(objs ...runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, obj := range objs {
		if err := s.add(obj); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) mustAdd(obj runtime.Object) { must(s.add(obj)) }

func (s *Server) add(obj runtime.Object) error {
	u, err := s.toUnstructured(obj)
	if err != nil {
		return err
	}
	t := s.tableOf(u.GroupVersionKind())
	if t == nil {
		return fmt.Errorf("memkube: kind %s is not served", u.GroupVersionKind())
	}
	if t.namespaced && u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	if t.namespaced && s.tables[namespaces].items[keyOf("", u.GetNamespace())] == nil {
		s.addNamespace(u.GetNamespace())
	}
	if u.GetUID() == "" {
		u.SetUID(s.newUID())
	}
	s.taken(u.GetUID())
	if stamp := u.GetCreationTimestamp(); stamp.IsZero() {
		u.SetCreationTimestamp(metav1.NewTime(now()))
	}
	if u.GetGeneration() == 0 && (t.custom || u.Object["spec"] != nil) {
		u.SetGeneration(1)
	}
	if t.gr == secrets {
		if err := admitSecret(t, u, nil); err != nil {
			return err
		}
	}
	key := keyOf(u.GetNamespace(), u.GetName())
	before := t.items[key]
	s.put(t, key, u)
	s.afterPut(t, key, before)
	return nil
}

// Get copies an object into obj, which must have the type, namespace and name of the requested object. It returns false
// if there is no such object.
func (s *Server) Get(obj runtime.Object) (bool, error) {
	u, err := s.toUnstructured(obj)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tableOf(u.GroupVersionKind())
	if t == nil {
		return false, fmt.Errorf("memkube: kind %s is not served", u.GroupVersionKind())
	}
	it := t.items[keyOf(u.GetNamespace(), u.GetName())]
	if it == nil {
		return false, nil
	}
	if out, ok := obj.(*unstructured.Unstructured); ok {
		out.Object = it.obj.DeepCopy().Object
		return true, nil
	}
	return true, runtime.DefaultUnstructuredConverter.FromUnstructured(it.obj.Object, obj)
}

// Objects returns all objects of a kind, sorted by namespace and name.
func (s *Server) Objects(gvk schema.GroupVersionKind) []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tableOf(gvk)
	if t == nil {
		return nil
	}
	var list []*unstructured.Unstructured
	for _, key := range sortedKeys(t.items) {
		list = append(list, t.items[key].obj.DeepCopy())
	}
	return list
}

// Changes returns the number of writes and deletions so far.
func (s *Server) Changes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rv
}

func (s *Server) tableOf(gvk schema.GroupVersionKind) *table {
	for gr, t := range s.tables {
		if gr.Group == gvk.Group && t.kind == gvk.Kind {
			return t
		}
	}
	return nil
}

func (s *Server) toUnstructured(obj runtime.Object) (*unstructured.Unstructured, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy(), nil
	}
	raw, err := utiljson.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("memkube: encode %T: %w", obj, err)
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &u.Object); err != nil {
		return nil, fmt.Errorf("memkube: decode %T: %w", obj, err)
	}
	dropNulls(u.Object)
	if u.GetKind() == "" {
		kinds, _, err := s.scheme.ObjectKinds(obj)
		if err != nil {
			return nil, fmt.Errorf("memkube: %w", err)
		}
		u.SetGroupVersionKind(kinds[0])
	}
	_, err = meta.Accessor(u)
	return u, err
}
