package planstore

import (
	"runtime"
	"sync"
	"weak"
)

// Memo computes a value from a cached object once per version of the object. A cache never changes an object, but
// replaces it. The values of removed objects are dropped after the garbage collector has freed the objects. It is safe
// for concurrent use.
type Memo[T, V any] struct {
	compute func(*T) V

	mu     sync.Mutex
	values map[string]memoized[T, V]
}

type memoized[T, V any] struct {
	of    weak.Pointer[T]
	value V
}

// NewMemo returns a Memo of a function, which must not keep the object.
func NewMemo[T, V any](compute func(*T) V) *Memo[T, V] {
	return &Memo[T, V]{compute: compute, values: map[string]memoized[T, V]{}}
}

// Of returns the value of an object. The key identifies the object over its versions.
func (m *Memo[T, V]) Of(key string, object *T) V {
	m.mu.Lock()
	known, ok := m.values[key]
	m.mu.Unlock()
	if ok && known.of.Value() == object {
		return known.value
	}
	value := m.compute(object)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = memoized[T, V]{of: weak.Make(object), value: value}
	runtime.AddCleanup(object, m.drop, key)
	return value
}

// drop forgets the value of a freed object, unless the value of a newer version has replaced it.
func (m *Memo[T, V]) drop(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values[key].of.Value() == nil {
		delete(m.values, key)
	}
}

// Len returns the number of values.
func (m *Memo[T, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.values)
}
