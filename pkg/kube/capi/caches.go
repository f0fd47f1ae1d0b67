package capi

import (
	"context"
	"fmt"

	lassocache "github.com/rancher/lasso/pkg/cache"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WrapCaches gives Drover's handlers the manager's informers for Cluster API's kinds, and base's for all others.
// Secrets are not shared, because the manager's cache holds only some of them, without data.
func (c *Core) WrapCaches(base lassocache.SharedCacheFactory) lassocache.SharedCacheFactory {
	return &sharedCaches{SharedCacheFactory: base, core: c}
}

type sharedCaches struct {
	lassocache.SharedCacheFactory
	core *Core
}

func shared(group string) bool { return group == clusterv1.GroupVersion.Group }

// ForKind returns the informer of a kind.
func (f *sharedCaches) ForKind(gvk schema.GroupVersionKind) (toolscache.SharedIndexInformer, error) {
	if !shared(gvk.Group) {
		return f.SharedCacheFactory.ForKind(gvk)
	}
	return f.core.informer(gvk)
}

// ForResource returns the informer of a resource.
func (f *sharedCaches) ForResource(gvr schema.GroupVersionResource, namespaced bool) (toolscache.SharedIndexInformer,
	error) {
	return f.ForResourceKind(gvr, "", namespaced)
}

// ForResourceKind returns the informer of a resource. kind may be empty.
func (f *sharedCaches) ForResourceKind(gvr schema.GroupVersionResource, kind string,
	namespaced bool) (toolscache.SharedIndexInformer, error) {
	if !shared(gvr.Group) {
		return f.SharedCacheFactory.ForResourceKind(gvr, kind, namespaced)
	}
	gvk := gvr.GroupVersion().WithKind(kind)
	if kind == "" {
		var err error
		if gvk, err = f.SharedClientFactory().GVKForResource(gvr); err != nil {
			return nil, fmt.Errorf("find kind of %s: %w", gvr.Resource, err)
		}
	}
	return f.core.informer(gvk)
}

// StartGVK starts nothing for shared kinds: the manager runs their informers.
func (f *sharedCaches) StartGVK(ctx context.Context, gvk schema.GroupVersionKind) error {
	if shared(gvk.Group) {
		return nil
	}
	return f.SharedCacheFactory.StartGVK(ctx, gvk)
}

// informer returns the manager's informer of a kind. It is filled once the manager runs.
func (c *Core) informer(gvk schema.GroupVersionKind) (toolscache.SharedIndexInformer, error) {
	object, err := c.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("find Go type of %s: %w", gvk.Kind, err)
	}
	typed, ok := object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("find informer of %s: the type is not an API object", gvk.Kind)
	}
	informer, err := c.manager.GetCache().GetInformer(context.Background(), typed, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("find informer of %s: %w", gvk.Kind, err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("find informer of %s: %T cannot be shared", gvk.Kind, informer)
	}
	return shared, nil
}
