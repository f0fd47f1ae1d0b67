package inspect

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/rancher/wrangler/v3/pkg/generic"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// readOnly refuses every request that could change something.
type readOnly struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r readOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		return nil, fmt.Errorf("%s %s: this program only reads", request.Method, request.URL.Path)
	}
	return r.RoundTripper.RoundTrip(request)
}

// once is a controller whose cache asks the API server once and remembers the answer.
type once[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.ControllerInterface[T, L]
	cache *onceCache[T, L]
}

// readOnce wraps the controller of a kind. Lists cover one namespace. It is not safe for concurrent use.
func readOnce[T generic.RuntimeMetaObject, L runtime.Object](c generic.ControllerInterface[T, L], namespace string) once[T, L] {
	return once[T, L]{c, &onceCache[T, L]{
		get: c.Get, list: c.List, namespace: namespace, answers: map[string]answer[T]{}, indexers: map[string]generic.Indexer[T]{},
	}}
}

// Cache returns the same cache every time.
func (o once[T, L]) Cache() generic.CacheInterface[T] { return o.cache }

type answer[T any] struct {
	object T
	err    error
}

type onceCache[T generic.RuntimeMetaObject, L runtime.Object] struct {
	get       func(namespace, name string, options metav1.GetOptions) (T, error)
	list      func(namespace string, options metav1.ListOptions) (L, error)
	namespace string
	answers   map[string]answer[T]
	listed    []T
	complete  bool
	indexers  map[string]generic.Indexer[T]
}

// Get implements generic.CacheInterface.
func (c *onceCache[T, L]) Get(namespace, name string) (T, error) {
	key := namespace + "/" + name
	if known, ok := c.answers[key]; ok {
		return known.object, known.err
	}
	object, err := c.get(namespace, name, metav1.GetOptions{})
	c.answers[key] = answer[T]{object, err}
	return object, err
}

// List implements generic.CacheInterface for the one namespace.
func (c *onceCache[T, L]) List(_ string, selector labels.Selector) ([]T, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(c.listed), func(object T) bool { return !selector.Matches(labels.Set(object.GetLabels())) }), nil
}

// AddIndexer implements generic.CacheInterface.
func (c *onceCache[T, L]) AddIndexer(name string, indexer generic.Indexer[T]) {
	c.indexers[name] = indexer
}

// GetByIndex implements generic.CacheInterface for the one namespace.
func (c *onceCache[T, L]) GetByIndex(name, key string) ([]T, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	var found []T
	for _, object := range c.listed {
		keys, err := c.indexers[name](object)
		if err != nil {
			return nil, err
		}
		if slices.Contains(keys, key) {
			found = append(found, object)
		}
	}
	return found, nil
}

func (c *onceCache[T, L]) fill() error {
	if c.complete {
		return nil
	}
	list, err := c.list(c.namespace, metav1.ListOptions{})
	if err != nil {
		return err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			c.listed = append(c.listed, typed)
			c.answers[typed.GetNamespace()+"/"+typed.GetName()] = answer[T]{object: typed}
		}
	}
	c.complete = true
	return nil
}

// onceGlobal is once for cluster-scoped kinds. Nothing lists them.
type onceGlobal[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.NonNamespacedControllerInterface[T, L]
	cache globalCache[T, L]
}

func readOnceGlobal[T generic.RuntimeMetaObject, L runtime.Object](c generic.NonNamespacedControllerInterface[T, L]) onceGlobal[T, L] {
	return onceGlobal[T, L]{c, globalCache[T, L]{onceCache: &onceCache[T, L]{
		get:     func(_, name string, options metav1.GetOptions) (T, error) { return c.Get(name, options) },
		list:    func(_ string, options metav1.ListOptions) (L, error) { return c.List(options) },
		answers: map[string]answer[T]{}, indexers: map[string]generic.Indexer[T]{},
	}}}
}

// Cache returns the same cache every time.
func (o onceGlobal[T, L]) Cache() generic.NonNamespacedCacheInterface[T] { return o.cache }

type globalCache[T generic.RuntimeMetaObject, L runtime.Object] struct{ *onceCache[T, L] }

// Get implements generic.NonNamespacedCacheInterface.
func (c globalCache[T, L]) Get(name string) (T, error) { return c.onceCache.Get("", name) }

// List implements generic.NonNamespacedCacheInterface.
func (c globalCache[T, L]) List(selector labels.Selector) ([]T, error) {
	return c.onceCache.List("", selector)
}
