package clustercache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/pkg/kube/capi/priority"
)

const (
	// defaultRetry is the delay after a failed attempt to connect.
	defaultRetry = time.Second
	// probeInterval, probeTimeout and threshold are Cluster API's own.
	probeInterval = 10 * time.Second
	probeTimeout  = 5 * time.Second
	threshold     = 5
	// pending is the capacity of the event channels, in clusters. Senders block when it is full.
	pending = 1024
)

// Door reaches clusters; proxy.Door implements it. The key of a cluster is the namespace and name of its provisioning
// Cluster, which are those of its Cluster API Cluster.
type Door interface {
	// RESTConfig returns the configuration for a cluster, as a copy that may be changed.
	RESTConfig(ctx context.Context, cluster types.NamespacedName) (*rest.Config, error)
	// Open identifies the way to a cluster. It is "" if there is none, or if no agent is at the other end. It changes
	// whenever the way does.
	Open(cluster types.NamespacedName) (string, error)
}

// Options configure a Cache. Door is required.
type Options struct {
	Door Door
	// Subscribe calls changed, until ctx ends, with each cluster whose way has changed. A call may block. Subscribe is
	// called once, when the manager starts. If it is nil, ways are checked every ten seconds.
	Subscribe func(ctx context.Context, changed func(cluster types.NamespacedName))
	// Retry is the delay after a failed attempt to connect; one second when it is zero.
	Retry time.Duration
	// Client and Cache configure the clients and caches of clusters.
	Client clustercache.ClientOptions
	Cache  clustercache.CacheOptions
	// Workers is how many clusters are worked on at the same time.
	Workers int
}

// Cache has the connections to clusters. It implements clustercache.ClusterCache of Cluster API.
type Cache struct {
	opts     Options
	objects  client.Reader
	scheme   *runtime.Scheme
	every    intervals
	changed  chan event.GenericEvent
	now      func() time.Time
	open     func(ctx context.Context, cluster types.NamespacedName) (*connection, error)
	lifetime context.Context // the context of all caches
	// event reports about a Cluster; nil reports nothing.
	event func(cluster *clusterv1.Cluster, reason, message string)

	mu       sync.RWMutex
	clusters map[types.NamespacedName]*state
	sources  []*listener
}

// state is what is known about a cluster. One worker changes it. Others read it with the Cache's lock.
type state struct {
	connection *connection
	// version is the version of the connection's way.
	version string
	health  clustercache.HealthCheckingState
	// way is the version of the current way. asked is the time of the last request by it, zero if there was none. took
	// is how long the last attempt to connect took. refused means that the cluster refused the credential.
	way     string
	asked   time.Time
	took    time.Duration
	refused bool
	// refusal is why the rules for kubeconfigs prevented the last attempt to connect. reported is the last refusal of
	// which an Event told.
	refusal, reported string
	// missed is when a failure was counted last.
	missed time.Time
	// watches are the names of the connection's watches.
	watches map[string]struct{}
}

// listener is a controller that subscribes to clusters.
type listener struct {
	events chan event.GenericEvent
	// limits are the times without an answer after which the listener is notified. told is the last notification, by
	// cluster.
	limits []time.Duration
	told   map[types.NamespacedName]time.Time
}

var _ clustercache.ClusterCache = &Cache{}

// New adds a Cache to a manager. It connects clusters while the manager runs.
func New(ctx context.Context, manager ctrl.Manager, opts Options) (*Cache, error) {
	if opts.Retry == 0 {
		opts.Retry = defaultRetry
	}
	if opts.Client.Timeout == 0 {
		opts.Client.Timeout = 10 * time.Second
	}
	lifetime, end := context.WithCancel(context.WithoutCancel(ctx))
	c := newCache(lifetime, opts, manager.GetClient(), manager.GetScheme())
	recorder := manager.GetEventRecorderFor("clustercache") //nolint:staticcheck // as all Events of the core
	c.event = func(cluster *clusterv1.Cluster, reason, message string) {
		recorder.Event(cluster, corev1.EventTypeWarning, reason, message)
	}
	err := ctrl.NewControllerManagedBy(manager).Named("clustercache").
		For(&clusterv1.Cluster{}).
		WatchesRawSource(source.Channel(c.changed, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: opts.Workers, NewQueue: priority.NewQueue}).
		Complete(c)
	if err != nil {
		end()
		return nil, fmt.Errorf("add connections to clusters: %w", err)
	}
	if err := manager.Add(runnable(func(ctx context.Context) error { c.run(ctx, end); return nil })); err != nil {
		end()
		return nil, fmt.Errorf("add connections to clusters: %w", err)
	}
	return c, nil
}

func newCache(lifetime context.Context, opts Options, objects client.Reader, scheme *runtime.Scheme) *Cache {
	c := &Cache{
		opts: opts, objects: objects, scheme: scheme, every: intervals{retry: opts.Retry, probe: probeInterval,
			threshold: threshold},
		changed: make(chan event.GenericEvent, pending), now: time.Now, lifetime: lifetime,
		clusters: map[types.NamespacedName]*state{},
	}
	c.open = c.dial
	return c
}

type runnable func(context.Context) error

// Start implements manager.Runnable.
func (r runnable) Start(ctx context.Context) error { return r(ctx) }

// run passes on changed ways, and ends all caches with the manager.
func (c *Cache) run(ctx context.Context, end context.CancelFunc) {
	defer end()
	if c.opts.Subscribe != nil {
		c.opts.Subscribe(ctx, func(cluster types.NamespacedName) {
			object := &clusterv1.Cluster{}
			object.SetNamespace(cluster.Namespace)
			object.SetName(cluster.Name)
			select {
			case c.changed <- event.GenericEvent{Object: object}:
			case <-ctx.Done():
			}
		})
	}
	<-ctx.Done()
}

// Reconcile implements reconcile.Reconciler.
func (c *Cache) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	name := request.NamespacedName
	cluster := &clusterv1.Cluster{}
	err := c.objects.Get(ctx, name, cluster)
	if apierrors.IsNotFound(err) {
		c.forget(name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read Cluster %s: %w", name, err)
	}
	provisioned := cluster.Status.Initialization.InfrastructureProvisioned
	version, err := c.opts.Door.Open(name)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("find a connection to cluster %s: %w", name, err)
	}
	what, after := c.every.decide(c.now(), c.look(name, provisioned != nil && *provisioned, version))
	before := c.standing(name)
	c.act(ctx, name, what, version)
	c.reportRefusal(cluster)
	again := time.Duration(1) // after an action, decide again at once
	if what == wait {
		again = after
	}
	next := c.tell(cluster, before != c.standing(name))
	if again == 0 || next > 0 && next < again {
		again = next
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// act does what was decided.
func (c *Cache) act(ctx context.Context, name types.NamespacedName, what action, version string) {
	switch what {
	case wait:
	case disconnect:
		c.disconnect(name)
	case connect:
		c.connect(ctx, name, version)
	case probe:
		c.probe(ctx, name)
	case miss:
		c.miss(name)
	}
}

// look gathers the input of a decision about a cluster, and adds the cluster if it is new.
func (c *Cache) look(name types.NamespacedName, wanted bool, version string) seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.clusters[name]
	if s == nil {
		s = &state{}
		c.clusters[name] = s
	}
	if s.way != version {
		s.way, s.asked, s.took = version, time.Time{}, 0 // the history of one way does not apply to another
	}
	return seen{
		wanted: wanted, version: version, connected: s.version,
		asked: s.asked, took: s.took, failures: s.health.ConsecutiveFailures, refused: s.refused,
	}
}

func (c *Cache) connected(name types.NamespacedName) *connection {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if s := c.clusters[name]; s != nil {
		return s.connection
	}
	return nil
}

// standing is the state whose change notifies controllers at once.
type standing struct {
	connection *connection
	// silent is true for a cluster that never answered, once its failures reach Cluster API's threshold.
	silent bool
}

func (c *Cache) standing(name types.NamespacedName) standing {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.clusters[name]
	return standing{s.connection, s.health.LastProbeSuccessTime.IsZero() &&
		s.health.ConsecutiveFailures >= c.every.threshold}
}

// connect connects a cluster. It does not hold the lock, because it lasts until the cluster answers.
func (c *Cache) connect(ctx context.Context, name types.NamespacedName, version string) {
	began := c.now()
	made, err := c.open(ctx, name)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(4).Info("Cluster cannot be reached", "reason", err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.clusters[name]
	s.refused = false // a credential that is refused again is not retried at once
	s.answered(c.now(), err)
	s.refusal = refusalOf(err)
	s.took = s.asked.Sub(began)
	if err == nil {
		s.connection, s.version, s.watches = made, version, map[string]struct{}{}
	}
}

// reasonRefused is the reason of Events about kubeconfigs that break a rule.
const reasonRefused = "KubeconfigRefused"

// refusalOf returns the text of an error of a Door that refuses a kubeconfig, or "". Other errors contain what a
// cluster sends, and reach only the log.
func refusalOf(err error) string {
	var refusal interface {
		error
		RefusesKubeconfig() bool
	}
	if errors.As(err, &refusal) && refusal.RefusesKubeconfig() {
		return refusal.Error()
	}
	return ""
}

// reportRefusal tells once why the kubeconfig of a cluster is refused.
func (c *Cache) reportRefusal(cluster *clusterv1.Cluster) {
	c.mu.Lock()
	s := c.clusters[client.ObjectKeyFromObject(cluster)]
	text, isNew := s.refusal, s.refusal != s.reported
	s.reported = s.refusal
	c.mu.Unlock()
	if isNew && text != "" && c.event != nil {
		c.event(cluster, reasonRefused, text)
	}
}

// probe checks that the API server of a cluster answers.
func (c *Cache) probe(ctx context.Context, name types.NamespacedName) {
	err := c.connected(name).ask(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.clusters[name]
	s.refused = apierrors.IsUnauthorized(err)
	s.answered(c.now(), err)
}

// errNoWay is the result for a cluster that has no way.
var errNoWay = errors.New("there is no connection to the cluster")

func (c *Cache) miss(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clusters[name].answered(c.now(), errNoWay)
}

// answered records the result of a request at now. It counts failures at most once per probe interval, however often
// connecting is tried, because Cluster API takes five for more than a short interruption.
func (s *state) answered(now time.Time, err error) {
	s.asked, s.health.LastProbeTime = now, now
	switch {
	case err == nil:
		s.health.LastProbeSuccessTime, s.health.ConsecutiveFailures = now, 0
	case s.health.ConsecutiveFailures == 0 || now.Sub(s.missed) >= probeInterval:
		s.missed = now
		s.health.ConsecutiveFailures++
	}
}

func (c *Cache) disconnect(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.clusters[name]
	s.connection.close()
	s.connection, s.version, s.watches = nil, "", nil
	if s.health.ConsecutiveFailures < c.every.threshold {
		s.asked = time.Time{} // the way or its credential has changed, so the next attempt follows at once
	}
}

// forget removes a deleted cluster and its connection.
func (c *Cache) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.clusters[name]; s != nil && s.connection != nil {
		s.connection.close()
	}
	delete(c.clusters, name)
	for _, source := range c.sources {
		delete(source.told, name)
	}
}

// tell notifies the controllers of a change, or of a cluster that has not answered for too long. It returns when the
// next such notification is due; 0 is never.
func (c *Cache) tell(cluster *clusterv1.Cluster, turned bool) time.Duration {
	name, now := client.ObjectKeyFromObject(cluster), c.now()
	c.mu.Lock()
	var wake []*listener
	var next time.Duration
	answered := c.clusters[name].health.LastProbeSuccessTime
	for _, source := range c.sources {
		late, left := overdue(now, answered, source.told[name], source.limits)
		if turned || late {
			source.told[name] = now
			_, left = overdue(now, answered, now, source.limits)
			wake = append(wake, source)
		}
		if left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	c.mu.Unlock()
	for _, source := range wake {
		select {
		case source.events <- event.GenericEvent{Object: cluster}:
		case <-c.lifetime.Done():
		}
	}
	return next
}
