package backup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Of returns the part of a backup that belongs to the clusters of some namespaces, with everything that these clusters
// need. Without namespaces it returns the whole backup. It returns an error if a namespace has no cluster in the
// backup.
func (b *Backup) Of(namespaces ...string) (*Backup, error) {
	if len(namespaces) == 0 {
		return b, nil
	}
	if err := b.has(namespaces); err != nil {
		return nil, err
	}
	left, err := b.withoutOthers(namespaces)
	if err != nil {
		return nil, err
	}
	part := &Backup{Manifest: b.Manifest}
	part.Manifest.Namespaces, part.Manifest.Files = slices.Sorted(slices.Values(namespaces)), nil
	inUse := map[string]bool{}
	for _, object := range left {
		inUse[object.GetNamespace()] = true
	}
	for _, object := range left {
		if object.GetKind() != "Namespace" || inUse[object.GetName()] {
			part.Objects = append(part.Objects, object)
		}
	}
	part.count()
	return part, nil
}

func (b *Backup) has(wanted []string) error {
	found := map[string]bool{}
	for _, object := range b.Objects {
		if object.GroupVersionKind().GroupKind() == provisioningKind {
			found[object.GetNamespace()] = true
		}
	}
	known := "no clusters"
	if len(found) > 0 {
		known = "clusters in " + strings.Join(slices.Sorted(maps.Keys(found)), ", ")
	}
	for _, namespace := range wanted {
		if !found[namespace] {
			return fmt.Errorf("the backup has no cluster in namespace %q; it has %s", namespace, known)
		}
	}
	return nil
}

// withoutOthers returns all objects except those that only clusters in other namespaces need. It keeps objects that no
// cluster names, because they are the server's own.
func (b *Backup) withoutOthers(namespaces []string) ([]*unstructured.Unstructured, error) {
	var w world
	for _, object := range b.Objects {
		switch kind := object.GroupVersionKind().GroupKind(); {
		case stage(object) < 2:
		case single(kind):
			w.core = append(w.core, object)
		default:
			w.kinds = append(w.kinds, object)
		}
	}
	all, err := w.choose(nil)
	if err != nil {
		return nil, err
	}
	some, err := w.choose(namespaces)
	if err != nil {
		return nil, err
	}
	others := map[types.UID]bool{}
	for _, object := range all {
		others[object.GetUID()] = true
	}
	for _, object := range some {
		delete(others, object.GetUID())
	}
	return slices.DeleteFunc(slices.Clone(b.Objects), func(object *unstructured.Unstructured) bool {
		return others[object.GetUID()]
	}), nil
}

// single reports whether a backup selects objects of this kind one by one: the kinds of coreKinds.
func single(kind schema.GroupKind) bool {
	switch kind.Kind {
	case kindSecret, "ConfigMap", "ServiceAccount":
		return kind.Group == ""
	case "Role", "RoleBinding":
		return kind.Group == "rbac.authorization.k8s.io"
	}
	return false
}
