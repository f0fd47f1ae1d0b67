package thrift

import (
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// unchanged reports whether an apply would change neither the object nor its managedFields. wish is what the manager
// applies by force, in a version of its kind; live and entries are the object in that version and its managedFields.
//
// The manager's entry says which fields the last apply had, and how the API server's schema merges them. So the entry
// must be exactly the one of the wish, and each value the same. The answer is false in doubt, as for null.
func unchanged(wish, live map[string]any, entries []metav1.ManagedFieldsEntry, manager string) bool {
	version, _ := wish["apiVersion"].(string)
	own := slices.IndexFunc(entries, func(entry metav1.ManagedFieldsEntry) bool {
		return isApply(entry, manager) && entry.APIVersion == version
	})
	if own < 0 {
		return false
	}
	owned := fieldsOf(entries[own])
	if owned == nil || owned.Empty() {
		return false
	}
	c := comparison{others: sync.OnceValue(func() []*fieldpath.Set {
		var sets []*fieldpath.Set
		for i, entry := range entries {
			if i != own {
				sets = append(sets, fieldsOf(entry))
			}
		}
		return sets
	})}
	return c.sameFields(nil, opinion(wish), live, owned)
}

// isApply reports whether an entry is the one of a manager's applies.
func isApply(entry metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// fieldsOf returns the fields of an entry, or nil if they cannot be read.
func fieldsOf(entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	if entry.FieldsV1 == nil {
		return nil
	}
	set := &fieldpath.Set{}
	if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil
	}
	return set
}

// opinion returns a wish without the fields that say which object it is about. The API server does not put them into an
// entry.
func opinion(wish map[string]any) map[string]any {
	wish = maps.Clone(wish)
	delete(wish, "apiVersion")
	delete(wish, "kind")
	metadata, ok := wish["metadata"].(map[string]any)
	if !ok {
		return wish
	}
	metadata = maps.Clone(metadata)
	for _, field := range []string{"name", "namespace", "uid"} {
		delete(metadata, field)
	}
	if metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}
	wish["metadata"] = metadata
	if len(metadata) == 0 {
		delete(wish, "metadata")
	}
	return wish
}

// comparison compares a wish with an object and an entry.
type comparison struct {
	// others are the fields of the other entries, nil for one that cannot be read.
	others func() []*fieldpath.Set
}

// sameFields compares the fields of a map. The manager has applied the owned ones.
func (c comparison) sameFields(at fieldpath.Path, wish, live map[string]any, owned *fieldpath.Set) bool {
	if len(wish) != elements(owned) {
		return false
	}
	for name, wanted := range wish {
		if !c.same(at, fieldpath.PathElement{FieldName: &name}, wanted, live[name], owned) {
			return false
		}
	}
	return true
}

// sameItems compares the items of a list that managers share. The API server may move items when the wish has another
// order than the object.
func (c comparison) sameItems(at fieldpath.Path, wish, live []any, owned *fieldpath.Set) bool {
	if len(wish) != elements(owned) {
		return false
	}
	keys, next, seen := keysOf(owned), 0, fieldpath.MakePathElementSet(len(live))
	for _, item := range live {
		element, ok := elementOf(item, keys)
		if !ok || seen.Has(element) {
			return false
		}
		seen.Insert(element)
		if next == len(wish) {
			continue
		}
		wanted, ok := elementOf(wish[next], keys)
		if !ok {
			return false
		}
		if !wanted.Equals(element) {
			continue
		}
		if !c.same(at, element, wish[next], item, owned) {
			return false
		}
		next++
	}
	return next == len(wish)
}

// same compares one field or item.
func (c comparison) same(at fieldpath.Path, element fieldpath.PathElement, wish, live any, of *fieldpath.Set) bool {
	at = append(slices.Clip(at), element)
	owned, shared := of.Children.Get(element)
	if !shared {
		return of.Members.Has(element) && c.sameWhole(at, wish, live)
	}
	switch wish := wish.(type) {
	case map[string]any:
		live, ok := live.(map[string]any)
		return ok && c.sameFields(at, wish, live, owned)
	case []any:
		live, ok := live.([]any)
		return ok && c.sameItems(at, wish, live, owned)
	default:
		return false
	}
}

// sameWhole compares what the entry has as one. That is a scalar, or a list or a map that one manager owns as a whole,
// or an empty map. What others own below it shows that it is a map for several managers.
func (c comparison) sameWhole(at fieldpath.Path, wish, live any) bool {
	equal := value.Equals(value.NewValueInterface(wish), value.NewValueInterface(live))
	switch wish := wish.(type) {
	case nil:
		return false
	case map[string]any:
		if fields, ok := live.(map[string]any); ok && len(wish) == 0 && len(fields) > 0 {
			return c.ownersBelow(at) == some
		}
		return equal && (len(wish) == 0 || c.ownersBelow(at) == none)
	case []any:
		return equal && (len(wish) == 0 || c.ownersBelow(at) == none)
	default:
		return equal
	}
}

// owners says whether other managers own something.
type owners int

const (
	unknown owners = iota
	none
	some
)

// ownersBelow reports whether other managers own something below a path.
func (c comparison) ownersBelow(at fieldpath.Path) owners {
	found := none
	for _, set := range c.others() {
		if set == nil {
			return unknown
		}
		if below(set, at) {
			found = some
		}
	}
	return found
}

// below reports whether a set has something below a path.
func below(set *fieldpath.Set, at fieldpath.Path) bool {
	for _, element := range at {
		next, ok := set.Children.Get(element)
		if !ok {
			return false
		}
		set = next
	}
	return true
}

// elements returns how many fields or items of one level a set has.
func elements(set *fieldpath.Set) int {
	n := set.Members.Size()
	for element := range set.Children.All() {
		if !set.Members.Has(element) {
			n++
		}
	}
	return n
}

// keysOf returns the fields that identify the items of a list, or nil if their values do. All items have the same.
func keysOf(items *fieldpath.Set) []string {
	for _, all := range []func(func(fieldpath.PathElement) bool){items.Members.All(), items.Children.All()} {
		for element := range all {
			var keys []string
			if element.Key != nil {
				for _, field := range *element.Key {
					keys = append(keys, field.Name)
				}
			}
			return keys
		}
	}
	return nil
}

// elementOf returns how an entry names an item with all its keys, or a value if there are no keys.
func elementOf(item any, keys []string) (fieldpath.PathElement, bool) {
	fields, composite := item.(map[string]any)
	if keys == nil {
		_, list := item.([]any)
		named := value.NewValueInterface(item)
		return fieldpath.PathElement{Value: &named}, item != nil && !composite && !list
	}
	named := value.FieldList{}
	for _, key := range keys {
		field, ok := fields[key]
		if !ok {
			return fieldpath.PathElement{}, false
		}
		named = append(named, value.Field{Name: key, Value: value.NewValueInterface(field)})
	}
	named.Sort()
	return fieldpath.PathElement{Key: &named}, true
}
