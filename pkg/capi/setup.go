package capi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourceset"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourcesetbinding"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinepool"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// Grace periods after which Cluster API reports a cluster or a node that does not answer. Its own defaults.
const (
	connectionGrace = 50 * time.Second
	conditionGrace  = 5 * time.Minute
	clusterQPS      = 20
	clusterBurst    = 30
)

// setup registers the reconcilers with the manager.
func (c *Core) setup(ctx context.Context, opts Options) error {
	if err := index.AddDefaultIndexes(ctx, c.manager); err != nil {
		return fmt.Errorf("add indexes: %w", err)
	}
	workers := controller.Options{MaxConcurrentReconciles: orDefault(opts.Workers, defaultWorkers)}
	clusters, err := c.clusterCache(ctx, orDefault(opts.ConnectionRetry, defaultRetry), workers)
	if err != nil {
		return err
	}
	secrets, err := c.secretNames()
	if err != nil {
		return err
	}
	client, live := c.manager.GetClient(), c.manager.GetAPIReader()
	for _, reconciler := range []interface {
		SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error
	}{
		&cluster.Reconciler{Client: client, APIReader: live, ClusterCache: clusters, RemoteConnectionGracePeriod: connectionGrace},
		&machine.Reconciler{Client: client, APIReader: live, ClusterCache: clusters, RemoteConditionsGracePeriod: conditionGrace},
		&machineset.Reconciler{Client: client, APIReader: live, ClusterCache: clusters, PreflightChecks: sets.New(clusterv1.MachineSetPreflightCheckAll)},
		&machinedeployment.Reconciler{Client: client, APIReader: live},
		&machinehealthcheck.Reconciler{Client: client, ClusterCache: clusters},
		&machinepool.Reconciler{Client: client, APIReader: live, ClusterCache: clusters},
		&clusterresourcesetbinding.Reconciler{Client: client},
	} {
		if err := reconciler.SetupWithManager(ctx, c.manager, workers); err != nil {
			return fmt.Errorf("register %T: %w", reconciler, err)
		}
	}
	resourceSets := &clusterresourceset.Reconciler{Client: client, ClusterCache: clusters}
	if err := resourceSets.SetupWithManager(ctx, c.manager, workers, secrets); err != nil {
		return fmt.Errorf("register %T: %w", resourceSets, err)
	}
	return nil
}

// clusterCache makes the connections to downstream clusters, tried again soon while they fail.
func (c *Core) clusterCache(ctx context.Context, retry time.Duration, workers controller.Options) (clustercache.ClusterCache, error) {
	secrets, err := setup.CreateSecretCachingClient(c.manager)
	if err != nil {
		return nil, fmt.Errorf("make client of Secrets: %w", err)
	}
	clusters, err := clustercache.SetupWithManager(ctx, c.manager, clustercache.Options{
		SecretClient: harmless{secrets},
		Cache:        setup.ClusterCacheCacheOptions(),
		Client:       setup.ClusterCacheClientOptions(name, clusterQPS, clusterBurst),
	}, workers)
	if err != nil {
		return nil, fmt.Errorf("set up connections to clusters: %w", err)
	}
	// The interval has no option; the method exists on the concrete type of the pinned version, and a test would notice its loss.
	adjustable, ok := clusters.(interface {
		SetConnectionCreationRetryInterval(interval time.Duration)
	})
	if !ok {
		return nil, errors.New("set up connections to clusters: their retry interval cannot be set in this version of Cluster API")
	}
	adjustable.SetConnectionCreationRetryInterval(retry)
	return clusters, nil
}

// secretNames is a cache of Secrets' metadata, for resources that are applied to clusters.
func (c *Core) secretNames() (ctrlcache.Cache, error) {
	secrets, err := ctrlcache.New(c.manager.GetConfig(), ctrlcache.Options{
		Scheme: c.scheme, Mapper: c.manager.GetRESTMapper(), HTTPClient: c.manager.GetHTTPClient(),
		DefaultTransform: ctrlcache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("make cache of Secrets' metadata: %w", err)
	}
	if err := c.manager.Add(secrets); err != nil {
		return nil, fmt.Errorf("make cache of Secrets' metadata: %w", err)
	}
	return secrets, nil
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
