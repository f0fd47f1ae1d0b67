// Package sharedfields reduces the memory of caches of unstructured objects. Most of such an object is its managed
// fields: each field of the object is a map of its own there. Objects of one kind that the same managers write have the
// same managed fields, so the caches keep each part once. What readers see does not change.
//
//	informer.SetTransform(sharedfields.Transform)
package sharedfields

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Transform replaces the managed fields of an unstructured object by equal ones that objects share. Other objects stay
// as they are. It is a transformation of informers. As in all caches, readers copy an object before they change it.
func Transform(object any) (any, error) { return parts.transform(object) }

// parts are those of all caches of the process. Several caches hold the same objects.
var parts table

// generation is half of how many parts a table remembers at most. Parts with the UID of an owner are in one object
// only. They do not push out the parts of many objects, because those are used again and again.
const generation = 4096

// table remembers parts of managed fields. The zero value is ready, and safe for concurrent use.
type table struct {
	mu sync.Mutex
	// young are the parts that were used since the last change of generations, old those before.
	young, old map[sum]map[string]any
}

type sum [sha256.Size]byte

// empty is the part of a field without subfields.
var empty = map[string]any{}

func (t *table) transform(object any) (any, error) {
	content, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	metadata, _ := content.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, each := range entries {
		entry, _ := each.(map[string]any)
		fields, ok := entry["fieldsV1"].(map[string]any)
		if !ok {
			continue
		}
		if shared, _, ok := t.share(fields); ok {
			entry["fieldsV1"] = shared
		}
	}
	return object, nil
}

// share returns a map that is equal to a part, and its sum. It reports false for a part with other values than maps.
func (t *table) share(part map[string]any) (map[string]any, sum, bool) {
	if len(part) == 0 {
		return empty, sum{}, true
	}
	keys := slices.Sorted(maps.Keys(part))
	children := make([]map[string]any, len(keys))
	hashed := sha256.New()
	for i, key := range keys {
		child, ok := part[key].(map[string]any)
		if !ok {
			return nil, sum{}, false
		}
		var below sum
		if children[i], below, ok = t.share(child); !ok {
			return nil, sum{}, false
		}
		add(hashed, key, below)
	}
	var name sum
	hashed.Sum(name[:0])
	return t.known(name, func() map[string]any {
		made := make(map[string]any, len(keys)) // the given map may be one that objects share
		for i, key := range keys {
			made[key] = children[i]
		}
		return made
	}), name, true
}

// add adds a key and the sum of its value. The length separates them, because a key may contain every byte.
func add(to hash.Hash, key string, below sum) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(key)))
	_, _ = to.Write(length[:]) // a hash never fails
	_, _ = to.Write([]byte(key))
	_, _ = to.Write(below[:])
}

// known returns the remembered part with a sum, or remembers a new one.
func (t *table) known(name sum, create func() map[string]any) map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	part, ok := t.young[name]
	if ok {
		return part
	}
	if part, ok = t.old[name]; !ok {
		part = create()
	}
	if t.young == nil || len(t.young) >= generation {
		t.young, t.old = map[sum]map[string]any{}, t.young
	}
	t.young[name] = part
	return part
}
