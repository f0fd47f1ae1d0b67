package clients

import (
	"context"
	"sync"
	"time"

	lassocache "github.com/rancher/lasso/pkg/cache"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// sharedCaches borrows the caches of other Clients, which live longer. The controllers then do not cache again what the
// endpoints of the process have cached. Borrowed caches are neither started nor stopped here.
type sharedCaches struct {
	lassocache.SharedCacheFactory
	owner *tracker

	mu       sync.Mutex
	borrowed map[schema.GroupVersionKind]*borrowed
}

func shareCaches(factory lassocache.SharedCacheFactory, owner *tracker) *sharedCaches {
	return &sharedCaches{SharedCacheFactory: factory, owner: owner, borrowed: map[schema.GroupVersionKind]*borrowed{}}
}

func (s *sharedCaches) ForKind(gvk schema.GroupVersionKind) (cache.SharedIndexInformer, error) {
	if lent := s.borrow(gvk); lent != nil {
		return lent, nil
	}
	return s.SharedCacheFactory.ForKind(gvk)
}

func (s *sharedCaches) ForResourceKind(gvr schema.GroupVersionResource, kind string,
	namespaced bool) (cache.SharedIndexInformer, error) {
	if lent := s.borrow(gvr.GroupVersion().WithKind(kind)); lent != nil {
		return lent, nil
	}
	return s.SharedCacheFactory.ForResourceKind(gvr, kind, namespaced)
}

func (s *sharedCaches) StartGVK(ctx context.Context, gvk schema.GroupVersionKind) error {
	if s.borrow(gvk) != nil {
		return nil
	}
	return s.SharedCacheFactory.StartGVK(ctx, gvk)
}

func (s *sharedCaches) borrow(gvk schema.GroupVersionKind) cache.SharedIndexInformer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lent := s.borrowed[gvk]; lent != nil {
		return lent
	}
	informer := s.owner.get(gvk)
	if informer == nil {
		return nil
	}
	lent := &borrowed{indexed: indexed{informer}}
	s.borrowed[gvk] = lent
	return lent
}

// giveBack removes every event handler that was added to borrowed caches.
func (s *sharedCaches) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lent := range s.borrowed {
		lent.giveBack()
	}
}

// indexed is a cache that skips indexes that already exist. Several controllers share an index, and each of them adds
// it. A second term adds the same indexes as the first.
type indexed struct {
	cache.SharedIndexInformer
}

func (i indexed) GetIndexer() cache.Indexer {
	return knownIndexes{i.SharedIndexInformer.GetIndexer()}
}

func (i indexed) AddIndexers(indexers cache.Indexers) error {
	return i.SharedIndexInformer.AddIndexers(missing(i.SharedIndexInformer.GetIndexer(), indexers))
}

// borrowed is a cache of another owner.
type borrowed struct {
	indexed

	mu            sync.Mutex
	registrations []cache.ResourceEventHandlerRegistration
}

func (b *borrowed) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return b.remember(b.SharedIndexInformer.AddEventHandler(handler))
}

func (b *borrowed) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler,
	period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return b.remember(b.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period))
}

func (b *borrowed) AddEventHandlerWithOptions(handler cache.ResourceEventHandler,
	options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return b.remember(b.SharedIndexInformer.AddEventHandlerWithOptions(handler, options))
}

func (b *borrowed) remember(registration cache.ResourceEventHandlerRegistration,
	err error) (cache.ResourceEventHandlerRegistration, error) {
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.registrations = append(b.registrations, registration)
	return registration, nil
}

func (b *borrowed) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, registration := range b.registrations {
		_ = b.RemoveEventHandler(registration) // it may be removed already
	}
	b.registrations = nil
}

// Run and RunWithContext do nothing: the owner runs the cache.
func (b *borrowed) Run(<-chan struct{}) {}

func (b *borrowed) RunWithContext(context.Context) {}

// knownIndexes is an indexer that accepts an existing index.
type knownIndexes struct {
	cache.Indexer
}

func (k knownIndexes) AddIndexers(indexers cache.Indexers) error {
	return k.Indexer.AddIndexers(missing(k.Indexer, indexers))
}

func missing(indexer cache.Indexer, wanted cache.Indexers) cache.Indexers {
	known, result := indexer.GetIndexers(), cache.Indexers{}
	for name, index := range wanted {
		if known[name] == nil {
			result[name] = index
		}
	}
	return result
}
