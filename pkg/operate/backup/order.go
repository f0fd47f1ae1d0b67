package backup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// stage returns the stage of an object: definitions, then namespaces, then everything else. Stages take precedence over
// ownership.
func stage(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case kindCRD:
		return 0
	case "Namespace":
		return 1
	}
	return 2
}

// order sorts objects so that each comes after its owners. Otherwise it sorts by kind and name, so that backups of the
// same objects are equal.
func order(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	left := slices.Clone(objects)
	slices.SortFunc(left, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(stage(a), stage(b)), strings.Compare(describe(a), describe(b)))
	})
	present := map[types.UID]bool{}
	for _, object := range left {
		present[object.GetUID()] = true
	}
	placed := map[types.UID]bool{}
	var out []*unstructured.Unstructured
	for len(left) > 0 {
		var rest []*unstructured.Unstructured
		for _, object := range left {
			if stage(object) == 2 && waits(object, present, placed) {
				rest = append(rest, object)
				continue
			}
			out = append(out, object)
			placed[object.GetUID()] = true
		}
		if len(rest) == len(left) {
			return nil, fmt.Errorf("objects own each other in a cycle: %s and %d others", describe(rest[0]),
				len(rest)-1)
		}
		left = rest
	}
	return out, nil
}

// waits reports whether one of the object's owners is present and not placed yet.
func waits(object *unstructured.Unstructured, present, placed map[types.UID]bool) bool {
	return slices.ContainsFunc(ownerUIDs(object), func(uid types.UID) bool { return present[uid] && !placed[uid] })
}

func ownerUIDs(object *unstructured.Unstructured) []types.UID {
	var out []types.UID
	for _, owner := range object.GetOwnerReferences() {
		out = append(out, owner.UID)
	}
	return out
}
