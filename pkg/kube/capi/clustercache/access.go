package clustercache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// errUnnamed means that a watch has no name.
var errUnnamed = errors.New("a watch of a cluster needs a name")

// of returns the connection of a cluster. The error is clustercache.ErrClusterNotConnected if there is none.
func (c *Cache) of(cluster client.ObjectKey) (*connection, error) {
	if found := c.connected(cluster); found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("cluster %s: %w", cluster, clustercache.ErrClusterNotConnected)
}

// GetClient implements clustercache.ClusterCache.
func (c *Cache) GetClient(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	found, err := c.of(cluster)
	if err != nil {
		return nil, err
	}
	return found.cached, nil
}

// GetReader implements clustercache.ClusterCache.
func (c *Cache) GetReader(ctx context.Context, cluster client.ObjectKey) (client.Reader, error) {
	return c.GetClient(ctx, cluster)
}

// GetUncachedClient implements clustercache.ClusterCache.
func (c *Cache) GetUncachedClient(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	found, err := c.of(cluster)
	if err != nil {
		return nil, err
	}
	return found.live, nil
}

// GetRESTConfig implements clustercache.ClusterCache.
func (c *Cache) GetRESTConfig(_ context.Context, cluster client.ObjectKey) (*rest.Config, error) {
	found, err := c.of(cluster)
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(found.config), nil
}

// GetHealthCheckingState implements clustercache.ClusterCache.
func (c *Cache) GetHealthCheckingState(_ context.Context, cluster client.ObjectKey) clustercache.HealthCheckingState {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if s := c.clusters[cluster]; s != nil {
		return s.health
	}
	return clustercache.HealthCheckingState{}
}

// Watch implements clustercache.ClusterCache. It does not block: the informer is filled later.
func (c *Cache) Watch(_ context.Context, cluster client.ObjectKey, watcher clustercache.Watcher) error {
	if watcher.Name() == "" {
		return errUnnamed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.clusters[cluster]
	if s == nil || s.connection == nil {
		return fmt.Errorf("watch %s of cluster %s: %w", watcher.Name(), cluster, clustercache.ErrClusterNotConnected)
	}
	if _, ok := s.watches[watcher.Name()]; ok {
		return nil
	}
	if err := watcher.Watch(s.connection.cache); err != nil {
		return fmt.Errorf("watch %s of cluster %s: %w", watcher.Name(), cluster, err)
	}
	s.watches[watcher.Name()] = struct{}{}
	return nil
}

// GetClusterSource implements clustercache.ClusterCache.
func (c *Cache) GetClusterSource(_ string, mapFunc func(ctx context.Context, cluster client.Object) []ctrl.Request,
	opts ...clustercache.GetClusterSourceOption) source.Source {
	one := &listener{events: make(chan event.GenericEvent, pending), told: map[client.ObjectKey]time.Time{}}
	for _, opt := range opts {
		if limit, ok := opt.(clustercache.WatchForProbeFailure); ok {
			one.limits = append(one.limits, time.Duration(limit))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources = append(c.sources, one)
	return source.Channel(one.events, handler.TypedEnqueueRequestsFromMapFunc(mapFunc))
}
