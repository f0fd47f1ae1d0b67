package thrift

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// NewInformer creates the informer of a cache, like the option of controller-runtime's cache.
type NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration,
	toolscache.Indexers) toolscache.SharedIndexInformer

// caches are the manager's informers by kind. One kind may have several, each for one Go type and one API version.
type caches struct {
	mu     sync.RWMutex
	stores map[schema.GroupKind][]store
}

// store is the content of an informer.
type store struct {
	toolscache.Store
	// whole is set if the store has whole objects, and not only metadata.
	whole bool
	// version is the version of the objects.
	version string
}

// Informers returns create, and remembers each informer that it creates. Only these are consulted later: a new informer
// would need rights, and would cost memory.
func (t *Thrift) Informers(create NewInformer) NewInformer {
	return func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration,
		indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		informer := create(lw, example, resync, indexers)
		if gvk, err := apiutil.GVKForObject(example, t.scheme); err == nil {
			t.caches.add(gvk, example, informer.GetStore())
		}
		return informer
	}
}

func (c *caches) add(gvk schema.GroupVersionKind, example runtime.Object, content toolscache.Store) {
	_, partial := example.(*metav1.PartialObjectMetadata)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stores == nil {
		c.stores = map[schema.GroupKind][]store{}
	}
	added := store{Store: content, whole: !partial, version: gvk.Version}
	list := c.stores[gvk.GroupKind()]
	if _, generic := example.(*unstructured.Unstructured); generic || partial {
		c.stores[gvk.GroupKind()] = append(list, added)
		return
	}
	// Reconcilers read Go types where there are some.
	c.stores[gvk.GroupKind()] = append([]store{added}, list...)
}

func (c *caches) of(kind schema.GroupKind) []store {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.stores[kind]
}

// show reports whether all caches of a kind are as new as a resourceVersion. It uses the same comparison as Cluster
// API. Caches of another API version of the kind do not count: an API server that serves it no longer leaves them
// behind for ever.
func (c *caches) show(kind schema.GroupVersionKind, version string) bool {
	for _, content := range c.of(kind.GroupKind()) {
		if content.version != kind.Version {
			continue
		}
		seen := content.LastStoreSyncResourceVersion()
		if seen == "" {
			return false // not filled yet
		}
		if order, err := resourceversion.CompareResourceVersion(seen, version); err == nil && order < 0 {
			return false
		}
	}
	return true
}

// find returns the cached object, which must not be changed, or nil.
func (c *caches) find(gvk schema.GroupVersionKind, name types.NamespacedName) client.Object {
	for _, content := range c.of(gvk.GroupKind()) {
		if !content.whole || content.version != gvk.Version {
			continue
		}
		found, ok, err := content.GetByKey(toolscache.NewObjectName(name.Namespace, name.Name).String())
		object, isObject := found.(client.Object)
		if err != nil || !ok || !isObject {
			return nil
		}
		return object
	}
	return nil
}
