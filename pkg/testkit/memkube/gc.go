package memkube

import (
	"cmp"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// trackOwners keeps the graph of owners up to date.
func (s *Server) trackOwners(t *table, key string, before, after *item) {
	ref := itemRef{t.gr, key}
	if before != nil {
		for _, owner := range before.obj.GetOwnerReferences() {
			delete(s.owners[string(owner.UID)], ref)
		}
		delete(s.uidsAlive, string(before.obj.GetUID()))
	}
	if after == nil {
		return
	}
	for _, owner := range after.obj.GetOwnerReferences() {
		if s.owners[string(owner.UID)] == nil {
			s.owners[string(owner.UID)] = map[itemRef]bool{}
		}
		s.owners[string(owner.UID)][ref] = true
	}
	s.uidsAlive[string(after.obj.GetUID())] = ref
}

// dependents returns the dependents of an owner in a fixed order.
func (s *Server) dependents(uid types.UID) []itemRef { return sortedRefs(s.owners[string(uid)]) }

func sortedRefs(set map[itemRef]bool) []itemRef {
	return slices.SortedFunc(maps.Keys(set), func(a, b itemRef) int {
		return cmp.Or(cmp.Compare(a.gr.Group, b.gr.Group), cmp.Compare(a.gr.Resource, b.gr.Resource),
			cmp.Compare(a.key, b.key))
	})
}

// collect deletes the dependents of a deleted object, unless another owner exists.
func (s *Server) collect(gone types.UID) {
	for _, ref := range s.dependents(gone) {
		t := s.tables[ref.gr]
		if t == nil || t.items[ref.key] == nil {
			continue
		}
		obj := t.items[ref.key].obj
		if s.hasLivingOwner(obj) {
			next := obj.DeepCopy()
			next.SetOwnerReferences(slices.DeleteFunc(next.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
				return r.UID == gone
			}))
			s.put(t, ref.key, next)
			continue
		}
		if obj.GetDeletionTimestamp() == nil {
			s.startDeletion(t, ref.key, obj, metav1.DeletePropagationBackground)
		}
	}
	delete(s.owners, string(gone))
	s.finishForeground()
}

// hasLivingOwner follows the rules of the garbage collector: an owner counts when it is in the same namespace or is
// cluster-scoped.
func (s *Server) hasLivingOwner(obj *unstructured.Unstructured) bool {
	for _, reference := range obj.GetOwnerReferences() {
		if ref, ok := s.uidsAlive[string(reference.UID)]; ok {
			namespace, _ := splitKey(ref.key)
			if namespace == "" || namespace == obj.GetNamespace() {
				return true
			}
		}
	}
	return false
}

// startDeletion marks an object for deletion, or removes it if no finalizer holds it.
func (s *Server) startDeletion(t *table, key string, obj *unstructured.Unstructured,
	policy metav1.DeletionPropagation) *item {
	next := obj.DeepCopy()
	switch policy {
	case metav1.DeletePropagationForeground:
		next.SetFinalizers(withFinalizer(next.GetFinalizers(), metav1.FinalizerDeleteDependents))
	case metav1.DeletePropagationOrphan:
		s.orphan(obj)
	}
	if t.gr.Resource == "namespaces" && t.gr.Group == "" {
		return s.terminateNamespace(t, key, next)
	}
	if len(next.GetFinalizers()) == 0 {
		return s.remove(t, key, obj)
	}
	if next.GetDeletionTimestamp() == nil {
		stamp := metav1.NewTime(now())
		next.SetDeletionTimestamp(&stamp)
		zero := int64(0)
		next.SetDeletionGracePeriodSeconds(&zero)
		if next.GetGeneration() > 0 {
			next.SetGeneration(next.GetGeneration() + 1)
		}
	}
	it := s.put(t, key, next)
	if policy == metav1.DeletePropagationForeground {
		s.foreground[itemRef{t.gr, key}] = true
		for _, ref := range s.dependents(obj.GetUID()) {
			if dt := s.tables[ref.gr]; dt != nil && dt.items[ref.key] != nil &&
				dt.items[ref.key].obj.GetDeletionTimestamp() == nil {
				s.startDeletion(dt, ref.key, dt.items[ref.key].obj, metav1.DeletePropagationForeground)
			}
		}
		s.finishForeground()
	}
	return it
}

// orphan removes the owner reference from the owner's dependents.
func (s *Server) orphan(owner *unstructured.Unstructured) {
	for _, ref := range s.dependents(owner.GetUID()) {
		t := s.tables[ref.gr]
		if t == nil || t.items[ref.key] == nil {
			continue
		}
		next := t.items[ref.key].obj.DeepCopy()
		next.SetOwnerReferences(slices.DeleteFunc(next.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
			return r.UID == owner.GetUID()
		}))
		s.put(t, ref.key, next)
	}
}

// finishForeground removes the finalizer of each owner whose dependents are gone.
func (s *Server) finishForeground() {
	for again := true; again; {
		again = false
		for _, ref := range sortedRefs(s.foreground) {
			t := s.tables[ref.gr]
			if t == nil || t.items[ref.key] == nil || !waitsForDependents(t.items[ref.key].obj) {
				delete(s.foreground, ref)
				continue
			}
			if s.isBlocked(t.items[ref.key].obj) {
				continue
			}
			delete(s.foreground, ref)
			next := t.items[ref.key].obj.DeepCopy()
			next.SetFinalizers(slices.DeleteFunc(next.GetFinalizers(), func(f string) bool {
				return f == metav1.FinalizerDeleteDependents
			}))
			s.store(t, ref.key, next)
			again = true
		}
	}
}

func waitsForDependents(obj *unstructured.Unstructured) bool {
	return obj.GetDeletionTimestamp() != nil && slices.Contains(obj.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

// isBlocked reports whether a dependent still blocks the deletion of its owner.
func (s *Server) isBlocked(owner *unstructured.Unstructured) bool {
	for _, ref := range s.dependents(owner.GetUID()) {
		t := s.tables[ref.gr]
		if t == nil || t.items[ref.key] == nil {
			continue
		}
		for _, reference := range t.items[ref.key].obj.GetOwnerReferences() {
			if reference.UID == owner.GetUID() && reference.BlockOwnerDeletion != nil && *reference.BlockOwnerDeletion {
				return true
			}
		}
	}
	return false
}

// store puts an object, or removes it if it is being deleted and nothing holds it.
func (s *Server) store(t *table, key string, obj *unstructured.Unstructured) *item {
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 && !s.holdsNamespace(t, obj) {
		return s.remove(t, key, obj)
	}
	return s.put(t, key, obj)
}

func withFinalizer(finalizers []string, name string) []string {
	if slices.Contains(finalizers, name) {
		return finalizers
	}
	return append(finalizers, name)
}

// checkDeletion checks the preconditions of a deletion.
func checkDeletion(t *table, obj *unstructured.Unstructured, opts metav1.DeleteOptions) error {
	p := opts.Preconditions
	if p == nil {
		return nil
	}
	if p.UID != nil && *p.UID != obj.GetUID() || p.ResourceVersion != nil &&
		*p.ResourceVersion != obj.GetResourceVersion() {
		return apierrors.NewConflict(t.gr, obj.GetName(), errPrecondition)
	}
	return nil
}
