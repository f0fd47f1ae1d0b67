package clients

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	lassocontroller "github.com/rancher/lasso/pkg/controller"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// chain combines all handlers of one kind into a single handler of the framework. The framework removes a handler by
// shifting a list while workers may iterate over it, which is a data race. A list with one entry never shifts. The
// chain replaces its own list instead.
type chain struct {
	gate    *gate
	workers *workers

	mu      sync.Mutex
	entries []*entry // replaced, never changed
}

func newChain(g *gate, name string, informer func() cache.SharedIndexInformer) *chain {
	c := &chain{gate: g}
	c.workers = &workers{name: name, informer: informer, concerns: c.concerns,
		run: func(key string, obj runtime.Object) error {
			_, err := c.OnChange(key, obj)
			return err
		}}
	return c
}

type entry struct {
	name    string
	handler lassocontroller.SharedControllerHandler
	filter  *filter
}

// add appends a handler until ctx ends.
func (c *chain) add(ctx context.Context, name string, handler lassocontroller.SharedControllerHandler) {
	added := &entry{name, handler, filterOf(ctx)}
	c.mu.Lock()
	c.entries = append(slices.Clone(c.entries), added)
	c.mu.Unlock()
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.entries = slices.DeleteFunc(slices.Clone(c.entries), func(e *entry) bool { return e == added })
	})
}

// OnChange calls the handlers in the order of their registration, each with the object that the previous one returned.
// A failing handler does not stop the others, and the error names each failed handler. The framework's ErrIgnore counts
// as success.
func (c *chain) OnChange(key string, obj runtime.Object) (runtime.Object, error) {
	c.mu.Lock()
	entries := c.entries
	c.mu.Unlock()
	var failed []error
	for _, e := range entries {
		if !e.filter.concerns(key, obj) {
			continue
		}
		e.filter.begin(key)
		next, err := c.gate.run(e.name, key, func() (runtime.Object, error) { return e.handler.OnChange(key, obj) })
		if err != nil && !errors.Is(err, lassocontroller.ErrIgnore) {
			failed = append(failed, fmt.Errorf("handler %s: %w", e.name, err))
		} else {
			e.filter.end(key, obj)
		}
		if usable(next) {
			obj = next
		}
	}
	return obj, errors.Join(failed...)
}

// concerns reports whether an object, or its deletion, concerns a handler.
func (c *chain) concerns(key string, obj runtime.Object) bool {
	c.mu.Lock()
	entries := c.entries
	c.mu.Unlock()
	return slices.ContainsFunc(entries, func(e *entry) bool { return e.filter.concerns(key, obj) })
}

// usable reports whether the next handler should get this returned object. Some handlers return an error with nil, or
// with an object without a UID.
func usable(obj runtime.Object) bool {
	if obj == nil || reflect.ValueOf(obj).IsNil() {
		return false
	}
	m, err := meta.Accessor(obj)
	return err != nil || m.GetUID() != ""
}
