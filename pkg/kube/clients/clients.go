package clients

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	lassocache "github.com/rancher/lasso/pkg/cache"
	lassoclient "github.com/rancher/lasso/pkg/client"
	lassocontroller "github.com/rancher/lasso/pkg/controller"
	"github.com/rancher/wrangler/v3/pkg/generated/controllers/apiextensions.k8s.io"
	crdcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/apiextensions.k8s.io/v1"
	"github.com/rancher/wrangler/v3/pkg/generated/controllers/batch"
	batchcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/batch/v1"
	"github.com/rancher/wrangler/v3/pkg/generated/controllers/core"
	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/rancher/wrangler/v3/pkg/generated/controllers/rbac"
	rbaccontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/rbac/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	capi "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io"
	capicontrollers "github.com/drover-io/drover/pkg/generated/controllers/cluster.x-k8s.io/v1beta2"
	"github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io"
	rkecontrollers "github.com/drover-io/drover/pkg/generated/controllers/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/applyset"
)

const (
	// defaultWorkers is how many objects of one kind are handled at the same time. One namespace gets up to four
	// workers, which leaves four for the others.
	defaultWorkers = 8
	// defaultSyncTimeout is how long the caches may take to fill.
	defaultSyncTimeout = time.Minute
	// requestTimeout bounds requests other than watches, because the generated clients take no context.
	requestTimeout = 30 * time.Second
)

// NotHelm is the field selector that excludes the history of Helm releases from the cache of Secrets. Drover does not
// read it, and in many management clusters it is most of the data in Secrets.
const NotHelm = "type!=helm.sh/release.v1"

// Options configure Clients. The zero value is valid.
type Options struct {
	// Version is Drover's, for the user agent.
	Version string
	// Factory is a host's own lasso factory. Nil makes one.
	Factory lassocontroller.SharedControllerFactory
	// WrapCaches may replace caches of a factory that New creates. The embedded Cluster API controllers provide theirs
	// this way.
	WrapCaches func(lassocache.SharedCacheFactory) lassocache.SharedCacheFactory
	// Share lends the caches of other Clients. Those must be created first, be started already, and live longer.
	Share *Clients
	// WithoutDynamic disables Dynamic: it follows no CRDs.
	WithoutDynamic bool
	// Workers is how many objects of one kind are handled at the same time, about half of them from one namespace; 8
	// when it is zero.
	Workers int
	// KindWorkers overrides Workers.
	KindWorkers map[schema.GroupVersionKind]int
	// SyncTimeout is how long the caches may take to fill; one minute when it is zero.
	SyncTimeout time.Duration
	// SecretBytes is the largest Secret of a user whose data the cache keeps; DefaultSecretBytes when it is zero. A
	// host's Factory has its own caches, and keeps what it likes.
	SecretBytes int64
	// DynamicGroups are the API groups of Dynamic; when it is empty, those of the machine kinds, and kinds of Fleet.
	DynamicGroups []string
	// Observe is called after every run of a handler, with its name, duration and error. It may be nil.
	Observe func(handler string, took time.Duration, err error)
}

// Clients holds the clients and caches. New creates it. The fields are read-only.
type Clients struct {
	// Config is the configuration of every client here: user agent, no client-side limit, protobuf where it is
	// understood.
	Config *rest.Config
	// Scheme knows every kind with a generated client.
	Scheme *runtime.Scheme
	// Factory is behind every generated controller.
	Factory lassocontroller.SharedControllerFactory

	Provisioning provcontrollers.Interface
	RKE          rkecontrollers.Interface
	Management   mgmtcontrollers.Interface
	CAPI         capicontrollers.Interface
	Core         corecontrollers.Interface
	Batch        batchcontrollers.Interface
	RBAC         rbaccontrollers.Interface
	CRDs         crdcontrollers.Interface

	// Kubernetes covers what the generated clients lack, such as TokenRequests.
	Kubernetes kubernetes.Interface
	// Dynamic has the kinds of node drivers and of Fleet.
	Dynamic *Dynamic
	// Apply applies sets of objects, and Secrets applies sets of Secrets.
	Apply   *applyset.Set
	Secrets *applyset.Secrets

	workers     int
	kindWorkers map[schema.GroupVersionKind]int
	gated       *gatedFactory
	syncTimeout time.Duration
	ownFactory  bool
	shared      *sharedCaches
	tracker     *tracker
	gate        *gate
	stopWorkers context.CancelFunc
	// informers are the caches that Informer has returned, by GroupVersionKind. lasso maps a kind to its resource again
	// in each call.
	informers sync.Map
}

// New returns Clients for the API server of cfg. Nothing runs before Start.
func New(cfg *rest.Config, opts Options) (*Clients, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	c := &Clients{
		Config: configure(cfg, opts.Version), Scheme: scheme, gate: newGate(opts.Observe), tracker: &tracker{},
		workers: cmp.Or(opts.Workers, defaultWorkers), kindWorkers: opts.KindWorkers,
		syncTimeout: cmp.Or(opts.SyncTimeout, defaultSyncTimeout),
	}
	if err := c.setFactory(opts); err != nil {
		return nil, err
	}
	if err := c.setGenerated(); err != nil {
		return nil, err
	}
	return c, c.setSets(opts)
}

func configure(cfg *rest.Config, version string) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "drover/" + cmp.Or(version, "dev")
	cfg.QPS, cfg.Burst = -1, 0
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	cfg.ContentType = runtime.ContentTypeJSON
	if cfg.Timeout == 0 {
		cfg.Timeout = requestTimeout
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return guardSecrets{next} })
	return cfg
}

func (c *Clients) setFactory(opts Options) error {
	if opts.Factory != nil {
		if err := checkHost(c.Scheme, opts.Factory.SharedCacheFactory().SharedClientFactory()); err != nil {
			return fmt.Errorf("use the embedding program's controller factory: %w", err)
		}
		c.gated = &gatedFactory{SharedControllerFactory: opts.Factory, gate: c.gate, tracker: c.tracker}
		c.Factory = c.gated
		return nil
	}
	client, err := lassoclient.NewSharedClientFactory(c.Config,
		&lassoclient.SharedClientFactoryOptions{Scheme: c.Scheme})
	if err != nil {
		return fmt.Errorf("make clients: %w", err)
	}
	caches := lassocache.NewSharedCachedFactory(endingClients{client}, &lassocache.SharedCacheFactoryOptions{
		// Only Pods that create and delete machines are cached, because a management cluster may have many others. Of
		// the ClusterRoles and their bindings, only those of apply sets are cached.
		KindTweakList: map[schema.GroupVersionKind]lassocache.TweakListOptionsFunc{
			corev1.SchemeGroupVersion.WithKind("Secret"): func(o *metav1.ListOptions) { o.FieldSelector = NotHelm },
			corev1.SchemeGroupVersion.WithKind("Pod"): func(o *metav1.ListOptions) {
				o.LabelSelector = rkev1.InfraMachineNameLabel
			},
			rbacv1.SchemeGroupVersion.WithKind("ClusterRole"):        ofSets,
			rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"): ofSets,
		},
	})
	caches = &reducingCaches{SharedCacheFactory: caches,
		limit: secretLimit(cmp.Or(opts.SecretBytes, DefaultSecretBytes))}
	if opts.Share != nil {
		c.shared = shareCaches(caches, opts.Share.tracker)
		caches = c.shared
	}
	if opts.WrapCaches != nil {
		caches = opts.WrapCaches(caches)
	}
	caches = &trackedCaches{SharedCacheFactory: caches, tracker: c.tracker}
	// lasso only passes keys to the workers of each kind, and one goroutine is enough for that.
	factory := lassocontroller.NewSharedControllerFactory(caches,
		&lassocontroller.SharedControllerFactoryOptions{DefaultWorkers: 1})
	c.gated = &gatedFactory{SharedControllerFactory: factory, gate: c.gate, tracker: c.tracker}
	c.Factory, c.ownFactory = c.gated, true
	return nil
}

// ofSets selects the objects of apply sets.
func ofSets(o *metav1.ListOptions) { o.LabelSelector = applyset.HashLabel }

func (c *Clients) setGenerated() error {
	c.Provisioning = provisioning.New(c.Factory).V1()
	c.RKE = rke.New(c.Factory).V1()
	c.Management = management.New(c.Factory).V3()
	c.CAPI = capi.New(c.Factory).V1beta2()
	c.Core = checkedCore{core.New(c.Factory).V1()}
	c.Batch = batch.New(c.Factory).V1()
	c.RBAC = rbac.New(c.Factory).V1()
	c.CRDs = apiextensions.New(c.Factory).V1()
	kube, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("make clients: %w", err)
	}
	c.Kubernetes = kube
	return nil
}

func (c *Clients) setSets(opts Options) error {
	// Unstructured objects cannot be read from protobuf.
	jsonOnly := rest.CopyConfig(c.Config)
	jsonOnly.AcceptContentTypes = runtime.ContentTypeJSON
	live, err := dynamic.NewForConfig(jsonOnly)
	if err != nil {
		return fmt.Errorf("make clients: %w", err)
	}
	// The timeout of a client also ends its watches. Only lasso's clients exempt watches from it.
	jsonOnly.Timeout = 0
	watching, err := dynamic.NewForConfig(jsonOnly)
	if err != nil {
		return fmt.Errorf("make clients: %w", err)
	}
	c.Dynamic = newDynamic(live, watching, c.CRDs.CustomResourceDefinition(), c.gate, opts.DynamicGroups)
	if !opts.WithoutDynamic {
		c.Dynamic.followCRDs()
	}
	c.Apply = applyset.New(applyset.Options{
		Discovery: c.Kubernetes.Discovery(), Dynamic: live, Scheme: c.Scheme, Informer: c.Informer,
	})
	secrets := c.Core.Secret()
	c.Secrets, err = applyset.NewSecrets(c.Scheme, secrets, secrets.Informer())
	return err
}

// Informer returns the cache of a kind: from the scheme, or from Dynamic.
func (c *Clients) Informer(gvk schema.GroupVersionKind) (cache.SharedIndexInformer, error) {
	if known, ok := c.informers.Load(gvk); ok {
		return known.(cache.SharedIndexInformer), nil
	}
	if !c.Scheme.Recognizes(gvk) {
		return c.Dynamic.Informer(gvk) // its kinds come and go
	}
	controller, err := c.Factory.ForKind(gvk)
	if err != nil {
		return nil, err
	}
	informer := controller.Informer()
	c.informers.Store(gvk, informer)
	return informer, nil
}

// HandlerContext is the context for registering handlers and wake-ups. It ends in Stop, after the last handler has
// returned.
func (c *Clients) HandlerContext() context.Context { return c.gate.ctx }

// WorkContext ends as soon as the workers are asked to end, while handlers still run. Use it for long waits in a
// handler, such as a download, because Stop waits for the handlers.
func (c *Clients) WorkContext() context.Context { return c.gate.work }

// Start fills the caches of all requested kinds, and starts the workers. If caches are not filled in time, it returns
// an error with their kinds. The workers end with ctx. Call Stop afterwards.
//
// With a host's factory, Start also starts kinds that the host has not started. They run until ctx ends, even after
// Stop, because they cannot be started twice. Pass the context of the whole process, and end a term with Stop.
func (c *Clients) Start(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	c.stopWorkers = stop
	context.AfterFunc(running, c.gate.endWork)
	kinds := running
	if !c.ownFactory {
		kinds = ctx
	}
	if err := c.startKinds(kinds); err != nil {
		c.Stop()
		return err
	}
	c.gated.start(func(gvk schema.GroupVersionKind, w *workers) {
		w.start(running, cmp.Or(c.kindWorkers[gvk], c.workers))
	})
	return c.Dynamic.start(running, c.workers)
}

func (c *Clients) startKinds(ctx context.Context) error {
	if err := c.Factory.SharedCacheFactory().Start(ctx); err != nil {
		return fmt.Errorf("start caches: %w", err)
	}
	if err := c.tracker.wait(ctx, c.syncTimeout); err != nil {
		return err
	}
	bringing := 1
	if !c.ownFactory {
		bringing = c.workers // the host's own handlers may start here too
	}
	if err := c.Factory.Start(ctx, bringing); err != nil {
		return fmt.Errorf("start controllers: %w", err)
	}
	return nil
}

// Stop ends the workers, waits for running handlers, and removes all handlers. It may be called more than once.
func (c *Clients) Stop() {
	if c.stopWorkers != nil {
		c.stopWorkers()
	}
	c.gate.close()
	if c.shared != nil {
		c.shared.giveBack()
	}
}

// stack returns the stack of a panic, for the log.
func stack() string { return string(debug.Stack()) }
