package capi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	storagev1 "k8s.io/api/storage/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/remote"
	"sigs.k8s.io/cluster-api/core/setup"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-io/drover/pkg/kube/capi/clustercache"
	"github.com/drover-io/drover/pkg/kube/capi/hold"
	"github.com/drover-io/drover/pkg/kube/capi/thrift"
	"github.com/drover-io/drover/pkg/kube/logs"
	"github.com/drover-io/drover/pkg/kube/sharedfields"
)

const (
	name = "drover"
	// resync is Cluster API's own.
	resync = 10 * time.Minute
	// defaultWorkers is how many objects of one kind are reconciled at the same time.
	defaultWorkers = 20
	cacheTimeout   = 2 * time.Minute
	// discoveryTimeout is how long the API server may take to list its kinds.
	discoveryTimeout = 30 * time.Second
)

// managers counts the managers of this process. Some of Cluster API's metrics are registered once per manager name. A
// program that leads, loses the lease and leads again creates a new manager.
var managers atomic.Int64

// Options configure the core. Door is required.
type Options struct {
	// Door connects the controllers to clusters.
	Door clustercache.Door
	// Subscribe calls changed, until ctx ends, with each cluster whose way has changed. A call may block. If it is nil,
	// ways are checked every ten seconds.
	Subscribe func(ctx context.Context, changed func(cluster types.NamespacedName))
	// Workers is how many objects of one kind are reconciled at the same time; 20 when it is zero.
	Workers int
	// Thrifty drops writes that change nothing, and reconciles objects more often. Cluster API's gate
	// ReconcilerRateLimiting is off in the whole process while such a core exists.
	Thrifty bool
	// Log receives the controllers' lines; the standard logger when it is nil.
	Log logrus.FieldLogger
	// window is how long a thrifty core holds statuses, if it is not zero.
	window time.Duration
}

// Core is Cluster API's core. New creates it.
type Core struct {
	manager *announcing
	scheme  *runtime.Scheme
	log     logrus.FieldLogger
	// thrift is nil for a core that is not thrifty.
	thrift *thrift.Thrift
	// held is nil for a core that is not thrifty.
	held  *hold.Client
	leave func()
}

// New sets up the controllers for the API server of cfg, which must serve Definitions already. Nothing runs before
// Start.
func New(ctx context.Context, cfg *rest.Config, opts Options) (*Core, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	if opts.Log == nil {
		opts.Log = logrus.StandardLogger()
	}
	managerName := name
	if n := managers.Add(1); n > 1 {
		managerName = fmt.Sprintf("%s-%d", name, n)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = remote.DefaultClusterAPIUserAgent(name)
	cfg.QPS, cfg.Burst = -1, 0
	cfg.Wrap(func(transport http.RoundTripper) http.RoundTripper { return finishWrites{transport} })
	caches := setup.ManagerCacheOptions(scheme, managerName, "", resync)
	caches.DefaultTransform = sharedfields.Transform
	core := &Core{scheme: scheme, log: opts.Log}
	if opts.Thrifty {
		core.thrift = thrift.New(thrift.Options{Scheme: scheme, Log: opts.Log})
		cfg.Wrap(core.thrift.Transport)
		caches.NewInformer = core.thrift.Informers(caches.NewInformer)
	}
	manager, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme,
		Logger: logs.Logr(opts.Log, logrus.DebugLevel),
		Controller: config.Controller{
			CacheSyncTimeout: cacheTimeout,
			UsePriorityQueue: new(true),
			// Names are unique within a manager. A process may create several managers, one after another.
			SkipNameValidation: new(true),
		},
		Cache:                  caches,
		Client:                 setup.ManagerClientOptions(),
		MapperProvider:         mapper,
		LeaderElection:         false, // the caller of Start leads
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
	})
	if err != nil {
		return nil, fmt.Errorf("make Cluster API manager: %w", err)
	}
	if core.leave, err = pace.enter(opts.Thrifty); err != nil {
		return nil, err
	}
	if core.manager, err = announce(manager); err != nil {
		core.leave()
		return nil, err
	}
	if err := core.setup(ctx, opts); err != nil {
		core.end()
		return nil, fmt.Errorf("set up Cluster API: %w", err)
	}
	return core, nil
}

// mapper reads the kinds of the API server with a timeout. The manager's own client has none, because it watches.
func mapper(cfg *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	limited := *client
	limited.Timeout = discoveryTimeout
	found, err := apiutil.NewDynamicRESTMapper(cfg, &limited)
	if err != nil {
		return nil, fmt.Errorf("list the kinds of Cluster API: %w", err)
	}
	return found, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextv1.AddToScheme, storagev1.AddToScheme,
		clusterv1.AddToScheme, addonsv1.AddToScheme, runtimev1.AddToScheme, ipamv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make scheme of Cluster API: %w", err)
		}
	}
	return scheme, nil
}

// Start runs the controllers until ctx ends. Call it once: it also cleans up what New has created.
func (c *Core) Start(ctx context.Context) error {
	defer c.end()
	err := c.manager.Start(ctx)
	if err != nil {
		err = fmt.Errorf("run Cluster API: %w", err)
	}
	if lost := c.flush(ctx); lost != nil {
		c.log.WithError(lost).Info("Some statuses of Cluster API are not written; the next leader computes them again")
	}
	return err
}

func (c *Core) end() {
	c.manager.broadcaster.Shutdown()
	c.leave()
}

// WaitForSync returns when the caches are filled, or with an error when ctx ends before.
func (c *Core) WaitForSync(ctx context.Context) error {
	if !c.manager.GetCache().WaitForCacheSync(ctx) {
		return errors.New("caches of Cluster API were not filled in time")
	}
	return nil
}

// Metrics returns the metrics of the controllers, which Cluster API keeps process-wide.
func Metrics() prometheus.Gatherer { return metrics.Registry }
