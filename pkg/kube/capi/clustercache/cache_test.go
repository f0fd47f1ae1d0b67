package clustercache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

var demo = types.NamespacedName{Namespace: "fleet", Name: "demo"}

// world is a cluster in memory, and the state that the management cluster has of it.
type world struct {
	client.Reader
	t     *testing.T
	api   *memkube.Server
	cache *Cache
	// cluster is nil after its deletion. version is that of the way to it.
	cluster *clusterv1.Cluster
	version string
	// answers replaces the answers of the cluster. asked counts its requests, because those of watches may end at any
	// time.
	answers atomic.Pointer[answers]
	asked   atomic.Int32
	// told counts the notifications of controllers.
	told int
}

// answers replace those of a cluster. broken fails every request. stalled selects paths that never answer.
type answers struct {
	broken  error
	stalled func(path string) bool
}

// nobodyListens breaks every request.
var nobodyListens = answers{broken: errors.New("no server listens")}

func newWorld(t *testing.T) *world {
	w := &world{t: t, api: memkube.New(memkube.Options{Scheme: scheme.Scheme}), cluster: &clusterv1.Cluster{}}
	w.answers.Store(&answers{})
	w.cluster.Namespace, w.cluster.Name = demo.Namespace, demo.Name
	w.cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	w.cache = newCache(t.Context(), w.options(), w, scheme.Scheme)
	w.cache.GetClusterSource("test", nil, clustercache.WatchForProbeFailure(50*time.Second))
	return w
}

// options are those of a Cache of the world.
func (w *world) options() Options {
	return Options{Door: w, Retry: time.Second, Client: clustercache.ClientOptions{
		Timeout: 10 * time.Second, QPS: 20, Burst: 30, UserAgent: "test",
		Cache: clustercache.ClientCacheOptions{DisableFor: []client.Object{&corev1.Secret{}}},
	}, Cache: clustercache.CacheOptions{Indexes: []clustercache.CacheOptionsIndex{clustercache.NodeProviderIDIndex}}}
}

// Get implements client.Reader.
func (w *world) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, ok := into.(*clusterv1.Cluster)
	if w.cluster == nil || !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, name.Name)
	}
	w.cluster.DeepCopyInto(found)
	return nil
}

// Open implements Door.
func (w *world) Open(types.NamespacedName) (string, error) { return w.version, nil }

// RESTConfig implements Door.
func (w *world) RESTConfig(context.Context, types.NamespacedName) (*rest.Config, error) {
	config := w.api.Config("test")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			w.asked.Add(1)
			instead := w.answers.Load()
			if instead.broken != nil {
				return nil, instead.broken
			}
			if instead.stalled != nil && instead.stalled(r.URL.Path) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return next.RoundTrip(r)
		})
	})
	return config, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
func (f roundTripper) CloseIdleConnections()                             {}

// work runs a worker for a duration.
func (w *world) work(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); ; {
		result, err := w.cache.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: demo})
		if err != nil {
			w.t.Fatal(err)
		}
		for len(w.cache.sources[0].events) > 0 {
			<-w.cache.sources[0].events
			w.told++
		}
		left := time.Until(end)
		if result.RequeueAfter == 0 || result.RequeueAfter > left {
			time.Sleep(left)
			return
		}
		time.Sleep(result.RequeueAfter)
	}
}

// expect works for a moment. It compares whether the cluster is connected, and how often controllers were notified
// since the last call.
func (w *world) expect(when string, connected bool, told int) {
	w.t.Helper()
	w.told = 0
	w.work(100 * time.Millisecond)
	_, err := w.cache.GetClient(w.t.Context(), demo)
	if (err == nil) != connected || err != nil && !errors.Is(err, clustercache.ErrClusterNotConnected) {
		w.t.Errorf("%s: error %v, want connected: %t", when, err, connected)
	}
	if w.told != told {
		w.t.Errorf("%s: %d notifications, want %d", when, w.told, told)
	}
}

// TestCache_FollowsTheConnection: a cluster is connected while it has a way, and not tried without one.
func TestCache_FollowsTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.expect("there is no connection", false, 1) // that it has never answered
		w.work(time.Minute)
		if w.asked.Load() != 0 {
			t.Errorf("%d requests to a cluster without a connection", w.asked.Load())
		}
		w.version = "tunnel/c-m-1"
		w.expect("the agent connects", true, 1)
		w.use()
		w.expect("nothing changes", true, 0)
		w.version = ""
		w.expect("the agent is disconnected", false, 1)
		asked := w.asked.Load()
		w.told = 0
		w.work(time.Minute)
		if w.asked.Load() != asked {
			t.Errorf("%d requests to a cluster whose agent is disconnected", w.asked.Load()-asked)
		}
		if w.told != 1 {
			t.Errorf("controllers got %d notifications about a lost cluster, want one", w.told)
		}
		w.version = "tunnel/c-m-1"
		w.expect("the agent reconnects", true, 1)
		w.version = "another"
		w.expect("the connection changes", true, 2)
		w.cluster = nil
		w.expect("the cluster is deleted", false, 0)
		if len(w.cache.clusters)+len(w.cache.sources[0].told) != 0 {
			t.Error("state of a deleted cluster remains")
		}
	})
}

// use reads from the cluster, and watches it.
func (w *world) use() {
	w.t.Helper()
	ctx := w.t.Context()
	reader, err := w.cache.GetReader(ctx, demo)
	if err != nil {
		w.t.Fatal(err)
	}
	live, err := w.cache.GetUncachedClient(ctx, demo)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := live.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(time.Second) // until the cache gets the event
	node := &corev1.Node{}
	if err := reader.Get(ctx, client.ObjectKey{Name: "n"}, node); err != nil {
		w.t.Errorf("read through the cache: %v", err)
	}
	asked := w.asked.Load()
	if err := reader.Get(ctx, client.ObjectKey{Name: "n"}, node); err != nil || w.asked.Load() != asked {
		t := w.asked.Load() - asked
		w.t.Errorf("read through the cache again: error %v, %d requests", err, t)
	}
	watcher := &counted{}
	for range 2 {
		if err := w.cache.Watch(ctx, demo, watcher); err != nil {
			w.t.Error(err)
		}
	}
	if watcher.times != 1 {
		w.t.Errorf("%d watches, want one", watcher.times)
	}
	config, err := w.cache.GetRESTConfig(ctx, demo)
	if err != nil || config.UserAgent != "test" {
		w.t.Errorf("config %v, error %v", config, err)
	}
}

type counted struct{ times int }

func (*counted) Name() string          { return "counted" }
func (*counted) Object() client.Object { return &corev1.Node{} }
func (c *counted) Watch(ctrlcache.Cache) error {
	c.times++
	return nil
}

// TestCache_ProbesTheCluster: a connected agent does not prove that the API server behind it answers.
func TestCache_ProbesTheCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.version = "1"
		w.answers.Store(&nobodyListens)
		w.expect("no server listens", false, 1)
		w.work(3 * time.Second)
		if w.asked.Load() < 3 {
			t.Errorf("%d attempts in three seconds", w.asked.Load())
		}
		w.answers.Store(&answers{})
		w.work(time.Second)
		w.expect("a server listens", true, 0)
		began := time.Now()
		w.answers.Store(&nobodyListens)
		w.work(30 * time.Second)
		w.expect("three answers are missing", true, 0)
		if health := w.cache.GetHealthCheckingState(t.Context(), demo); health.ConsecutiveFailures != 3 ||
			health.LastProbeSuccessTime.After(began) {
			t.Errorf("health: %+v", health)
		}
		w.work(20 * time.Second)
		w.expect("five answers are missing", false, 0)
		w.answers.Store(&answers{})
		w.work(time.Second)
		w.expect("the cluster answers again", true, 0)
		if health := w.cache.GetHealthCheckingState(t.Context(), demo); health.ConsecutiveFailures != 0 ||
			time.Since(health.LastProbeSuccessTime) > 2*time.Second {
			t.Errorf("health: %+v", health)
		}
	})
}

// TestCache_DetectsUnreachableClusters: a term that begins without the agent eventually reports it, instead of keeping
// the last term's state.
func TestCache_DetectsUnreachableClusters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.work(30 * time.Second)
		if health := w.cache.GetHealthCheckingState(t.Context(), demo); health.ConsecutiveFailures >= threshold {
			t.Errorf("the agent has too little time to connect: %+v", health)
		}
		w.told = 0
		w.work(time.Hour)
		if health := w.cache.GetHealthCheckingState(t.Context(), demo); health.ConsecutiveFailures < threshold ||
			health.LastProbeTime.IsZero() {
			t.Errorf("health: %+v", health)
		}
		if w.told != 1 || w.asked.Load() != 0 {
			t.Errorf("controllers got %d notifications about a cluster that never answered, want one; %d requests",
				w.told, w.asked.Load())
		}
		w.version = "tunnel/c-m-1"
		w.expect("the agent connects", true, 1)
		w.cluster.Status.Initialization.InfrastructureProvisioned = nil
		w.expect("it lost its infrastructure", false, 1)
	})
}

// TestCache_ToleratesFailedProbes: many attempts that fail at once do not make a cluster count as lost.
func TestCache_ToleratesFailedProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.version = "1"
		w.answers.Store(&nobodyListens)
		w.work(25 * time.Second)
		if health := w.cache.GetHealthCheckingState(t.Context(), demo); w.asked.Load() < 20 ||
			health.ConsecutiveFailures != 3 {
			t.Errorf("after %d requests: %+v", w.asked.Load(), health)
		}
	})
}

// TestCache_DoesNotBlockWorkers: a cluster that never answers does not occupy workers all the time. Another way to it
// is tried at once.
func TestCache_DoesNotBlockWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.version = "1"
		w.answers.Store(&answers{stalled: func(string) bool { return true }})
		w.work(3 * time.Minute)
		if w.asked.Load() < 5 || w.asked.Load() > 7 {
			t.Errorf("%d attempts in three minutes, each of which blocks a worker for five seconds", w.asked.Load())
		}
		w.version = "2"
		w.answers.Store(&answers{})
		w.expect("the kubeconfig changes", true, 1)
	})
}

// TestCache_IsConnectedWithNodes: a controller that sees a connected cluster can read its nodes without a wait. Failed
// attempts clean up.
func TestCache_IsConnectedWithNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.version = "1"
		w.answers.Store(&answers{stalled: func(path string) bool { return path == "/api/v1/nodes" }})
		w.expect("its nodes are not listed", false, 1)
		w.answers.Store(&answers{})
		w.work(time.Minute)
		w.expect("its nodes are listed", true, 0)
		reader, err := w.cache.GetReader(t.Context(), demo)
		if err != nil {
			t.Fatal(err)
		}
		asked := w.asked.Load()
		if err := reader.List(t.Context(), &corev1.NodeList{}); err != nil || w.asked.Load() != asked {
			t.Errorf("read at once: error %v, %d requests", err, w.asked.Load()-asked)
		}
	})
}

// refusal is the error of a Door that refuses a kubeconfig.
type refusal string

func (r refusal) Error() string           { return string(r) }
func (r refusal) RefusesKubeconfig() bool { return true }

// TestCache_ReportsRefusedKubeconfigs: an Event tells the reason once, and again when it changes or comes back. Errors
// with answers of the cluster are not in Events.
func TestCache_ReportsRefusedKubeconfigs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.version = "1"
		var events []string
		w.cache.event = func(_ *clusterv1.Cluster, reason, message string) {
			events = append(events, reason+": "+message)
		}
		for _, problem := range []error{refusal("Secret a is refused"), fmt.Errorf("dial: %w", refusal("b")),
			errors.New("the answer of the cluster"), refusal("b")} {
			w.answers.Store(&answers{broken: problem})
			w.work(10 * time.Second)
		}
		want := []string{"KubeconfigRefused: Secret a is refused", "KubeconfigRefused: b", "KubeconfigRefused: b"}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
