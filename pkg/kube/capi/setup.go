package capi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/drover-io/drover/pkg/kube/capi/clustercache"
	"github.com/drover-io/drover/pkg/kube/capi/priority"
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
	workers := controller.Options{MaxConcurrentReconciles: cmp.Or(opts.Workers, defaultWorkers),
		NewQueue: priority.NewQueue}
	clusters, err := clustercache.New(ctx, c.manager, clustercache.Options{
		Door: opts.Door, Subscribe: opts.Subscribe, Workers: workers.MaxConcurrentReconciles,
		Client: setup.ClusterCacheClientOptions(name, clusterQPS, clusterBurst),
		Cache:  setup.ClusterCacheCacheOptions(),
	})
	if err != nil {
		return fmt.Errorf("set up connections to clusters: %w", err)
	}
	secrets, err := c.secretNames()
	if err != nil {
		return err
	}
	client, live := c.manager.GetClient(), c.manager.GetAPIReader()
	of := func(string) ctrlclient.Client { return client }
	if c.thrift != nil {
		of, workers.NewQueue = c.holding(opts)
	}
	for _, reconciler := range []interface {
		SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error
	}{
		&cluster.Reconciler{Client: of("cluster"), APIReader: live, ClusterCache: clusters,
			RemoteConnectionGracePeriod: connectionGrace},
		&machine.Reconciler{Client: of("machine"), APIReader: live, ClusterCache: clusters,
			RemoteConditionsGracePeriod: conditionGrace},
		&machineset.Reconciler{Client: of("machineset"), APIReader: live, ClusterCache: clusters,
			PreflightChecks: sets.New(clusterv1.MachineSetPreflightCheckAll)},
		&machinedeployment.Reconciler{Client: of("machinedeployment"), APIReader: live},
		&machinehealthcheck.Reconciler{Client: of("machinehealthcheck"), ClusterCache: clusters},
		&machinepool.Reconciler{Client: of("machinepool"), APIReader: live, ClusterCache: clusters},
		&clusterresourcesetbinding.Reconciler{Client: of("clusterresourcesetbinding")},
	} {
		if err := reconciler.SetupWithManager(ctx, c.manager, workers); err != nil {
			return fmt.Errorf("register %T: %w", reconciler, err)
		}
	}
	resourceSets := &clusterresourceset.Reconciler{Client: of("clusterresourceset"), ClusterCache: clusters}
	if err := resourceSets.SetupWithManager(ctx, c.manager, workers, secrets); err != nil {
		return fmt.Errorf("register %T: %w", resourceSets, err)
	}
	return nil
}

// secretNames returns a cache of Secrets' metadata, for resources that are applied to clusters.
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
