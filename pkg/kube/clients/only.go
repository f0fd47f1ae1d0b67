package clients

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

type onlyKey struct{}

// Only limits the handler that is registered with the returned context to objects that wanted accepts. Keys of other
// objects do not enter the queue for it. A cache holds all Secrets of a management cluster, and most of their handlers
// are for one type.
//
// The handler runs once more when a wanted object is deleted, or when wanted accepts it no longer. So a handler that
// keeps state about objects can forget it. The handler still checks its object: a factory of a host may ignore the
// limit.
//
// wanted reads its object and nothing else, because changes of other objects do not ask it again.
func Only[T runtime.Object](ctx context.Context, wanted func(obj T) bool) context.Context {
	return context.WithValue(ctx, onlyKey{}, func(obj runtime.Object) bool {
		typed, ok := obj.(T)
		return !ok || wanted(typed)
	})
}

// filter decides for which objects a handler runs. A nil filter accepts all.
type filter struct {
	wanted func(obj runtime.Object) bool

	mu sync.Mutex
	// seen are the keys of the objects for which the handler has run and that it may hold state about.
	seen map[string]bool
}

// filterOf returns the filter of a registration, nil if it has none.
func filterOf(ctx context.Context) *filter {
	wanted, ok := ctx.Value(onlyKey{}).(func(runtime.Object) bool)
	if !ok {
		return nil
	}
	return &filter{wanted: wanted, seen: map[string]bool{}}
}

// concerns reports whether the handler has to run for an object, which is nil after its deletion.
func (f *filter) concerns(key string, obj runtime.Object) bool {
	if f == nil || obj != nil && f.wanted(obj) {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[key]
}

// begin notes that the handler runs.
func (f *filter) begin(key string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[key] = true
}

// end notes that the handler has succeeded. The next change of an unwanted object does not concern it.
func (f *filter) end(key string, obj runtime.Object) {
	if f == nil || obj != nil && f.wanted(obj) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seen, key)
}
