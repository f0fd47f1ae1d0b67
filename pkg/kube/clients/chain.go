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

// chain is all handlers of one kind as a single handler of the framework. The framework removes a handler by shifting the list that
// its workers may be going through, which is a data race; a list of one never shifts. The chain replaces its own list instead.
type chain struct {
	gate    *gate
	workers *workers

	mu      sync.Mutex
	entries []*entry // replaced, never changed
}

func newChain(g *gate, name string, informer func() cache.SharedIndexInformer) *chain {
	c := &chain{gate: g}
	c.workers = &workers{name: name, informer: informer, run: func(key string, obj runtime.Object) error {
		_, err := c.OnChange(key, obj)
		return err
	}}
	return c
}

type entry struct {
	name    string
	handler lassocontroller.SharedControllerHandler
}

// add appends a handler until ctx ends.
func (c *chain) add(ctx context.Context, name string, handler lassocontroller.SharedControllerHandler) {
	added := &entry{name, handler}
	c.mu.Lock()
	c.entries = append(slices.Clone(c.entries), added)
	c.mu.Unlock()
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.entries = slices.DeleteFunc(slices.Clone(c.entries), func(e *entry) bool { return e == added })
	})
}

// OnChange calls the handlers in the order of their registration, each with what the one before returned. One that fails does not stop
// the others; the error names each that failed. The framework's error for "not now" counts as success, as it does there.
func (c *chain) OnChange(key string, obj runtime.Object) (runtime.Object, error) {
	c.mu.Lock()
	entries := c.entries
	c.mu.Unlock()
	var failed []error
	for _, e := range entries {
		next, err := c.gate.run(e.name, key, func() (runtime.Object, error) { return e.handler.OnChange(key, obj) })
		if err != nil && !errors.Is(err, lassocontroller.ErrIgnore) {
			failed = append(failed, fmt.Errorf("handler %s: %w", e.name, err))
		}
		if usable(next) {
			obj = next
		}
	}
	return obj, errors.Join(failed...)
}

// usable says whether the next handler should see what this one returned: not nothing, and not an object without identity, which some
// handlers return with an error.
func usable(obj runtime.Object) bool {
	if obj == nil || reflect.ValueOf(obj).IsNil() {
		return false
	}
	m, err := meta.Accessor(obj)
	return err != nil || m.GetUID() != ""
}
