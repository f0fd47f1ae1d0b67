package wakeup

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// BySameName wakes the object with the namespace and name of the changed one.
func BySameName[T Object]() Resolver[T] {
	return func(obj T) []Key { return []Key{{Namespace: obj.GetNamespace(), Name: obj.GetName()}} }
}

// ByLabel wakes the object that a label names, in the namespace of the changed one.
func ByLabel[T Object](label string) Resolver[T] {
	return func(obj T) []Key { return named(obj.GetNamespace(), obj.GetLabels()[label]) }
}

// ByOwner wakes the owners of that group and kind, whatever their version.
func ByOwner[T Object](owner schema.GroupKind) Resolver[T] {
	return func(obj T) []Key {
		var keys []Key
		for _, reference := range obj.GetOwnerReferences() {
			group := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()
			if group == owner {
				keys = append(keys, Key{Namespace: obj.GetNamespace(), Name: reference.Name})
			}
		}
		return keys
	}
}

// Indexed is the part of a cache that ByIndex needs. Every generated cache has it.
type Indexed[T any] interface {
	GetByIndex(index, key string) ([]T, error)
}

// ByIndex wakes the objects that an index of the target's cache finds for the key of the changed object. The key ""
// finds nothing.
func ByIndex[T Object, F metav1.Object](cache Indexed[F], index string, key func(obj T) string) Resolver[T] {
	return func(obj T) []Key { return Found(cache, index, key(obj)) }
}

// Found returns the objects that an index finds for a key. The key "" finds nothing.
func Found[F metav1.Object](cache Indexed[F], index, key string) []Key {
	if key == "" {
		return nil
	}
	found, err := cache.GetByIndex(index, key)
	if err != nil {
		return nil // the index is not registered
	}
	return Keys(found)
}

// Keys returns the keys of objects, such as all objects of a cache.
func Keys[F metav1.Object](objects []F) []Key {
	keys := make([]Key, 0, len(objects))
	for _, object := range objects {
		keys = append(keys, Key{Namespace: object.GetNamespace(), Name: object.GetName()})
	}
	return keys
}

// Any joins resolvers.
func Any[T Object](resolvers ...Resolver[T]) Resolver[T] {
	return func(obj T) []Key {
		var keys []Key
		for _, resolve := range resolvers {
			keys = append(keys, resolve(obj)...)
		}
		return keys
	}
}

func named(namespace, name string) []Key {
	if name == "" {
		return nil
	}
	return []Key{{Namespace: namespace, Name: name}}
}
