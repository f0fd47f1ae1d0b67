package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	lassocache "github.com/rancher/lasso/pkg/cache"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// tracker remembers the requested caches, so that errors can name those that do not fill.
type tracker struct {
	mu    sync.Mutex
	known map[schema.GroupVersionKind]cache.SharedIndexInformer
}

func (t *tracker) add(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[schema.GroupVersionKind]cache.SharedIndexInformer{}
	}
	t.known[gvk] = informer
}

func (t *tracker) get(gvk schema.GroupVersionKind) cache.SharedIndexInformer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[gvk]
}

func (t *tracker) unfilled() (names []string, waitFor []cache.InformerSynced) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for gvk, informer := range t.known {
		if !informer.HasSynced() {
			names = append(names, gvk.GroupVersion().String()+" "+gvk.Kind)
		}
		waitFor = append(waitFor, informer.HasSynced)
	}
	slices.Sort(names)
	return names, waitFor
}

// wait waits until the caches are filled.
func (t *tracker) wait(ctx context.Context, timeout time.Duration) error {
	deadline, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, waitFor := t.unfilled()
	if cache.WaitForCacheSync(deadline.Done(), waitFor...) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("fill caches: %w", err)
	}
	names, _ := t.unfilled()
	return fmt.Errorf(
		"caches of these kinds were not filled within %s: %s (are their CRDs installed, and may Drover list and "+
			"watch them?)",
		timeout, strings.Join(names, ", "))
}

// trackedCaches is a cache factory that reports requested caches to the tracker.
type trackedCaches struct {
	lassocache.SharedCacheFactory
	tracker *tracker
}

func (t *trackedCaches) ForObject(obj runtime.Object) (cache.SharedIndexInformer, error) {
	gvk, err := t.SharedClientFactory().GVKForObject(obj)
	if err != nil {
		return nil, err
	}
	return t.ForKind(gvk)
}

func (t *trackedCaches) ForKind(gvk schema.GroupVersionKind) (cache.SharedIndexInformer, error) {
	informer, err := t.SharedCacheFactory.ForKind(gvk)
	return t.remember(gvk, informer, err)
}

func (t *trackedCaches) ForResource(gvr schema.GroupVersionResource, namespaced bool) (cache.SharedIndexInformer,
	error) {
	return t.ForResourceKind(gvr, "", namespaced)
}

func (t *trackedCaches) ForResourceKind(gvr schema.GroupVersionResource, kind string,
	namespaced bool) (cache.SharedIndexInformer, error) {
	if kind == "" {
		gvk, err := t.SharedClientFactory().GVKForResource(gvr)
		if err != nil {
			return nil, err
		}
		kind = gvk.Kind
	}
	informer, err := t.SharedCacheFactory.ForResourceKind(gvr, kind, namespaced)
	return t.remember(gvr.GroupVersion().WithKind(kind), informer, err)
}

func (t *trackedCaches) remember(gvk schema.GroupVersionKind, informer cache.SharedIndexInformer,
	err error) (cache.SharedIndexInformer, error) {
	if err != nil {
		return nil, err
	}
	t.tracker.add(gvk, informer)
	return informer, nil
}
