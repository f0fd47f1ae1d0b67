package planstore

import (
	"sync"
	"weak"
)

// Memo computes a value from an object of a cache once per version of the object: a cache never changes an object, it puts
// another one in its place. Values of objects that have left the cache are dropped some time after the garbage collector
// took the objects. It is safe for concurrent use.
type Memo[T, V any] struct {
	compute func(*T) V

	mu     sync.Mutex
	values map[string]memoized[T, V]
	sweep  int // the size at which dead entries are looked for
}

type memoized[T, V any] struct {
	of    weak.Pointer[T]
	value V
}

// minSweep is the smallest size at which dead entries are looked for.
const minSweep = 64

// NewMemo returns a Memo of a function, which must not keep the object.
func NewMemo[T, V any](compute func(*T) V) *Memo[T, V] {
	return &Memo[T, V]{compute: compute, values: map[string]memoized[T, V]{}, sweep: minSweep}
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
	if len(m.values) >= m.sweep {
		for key, v := range m.values {
			if v.of.Value() == nil {
				delete(m.values, key)
			}
		}
		m.sweep = max(minSweep, 2*len(m.values))
	}
	return value
}

// Len is the number of values that are kept.
func (m *Memo[T, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.values)
}
