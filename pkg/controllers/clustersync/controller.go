package clustersync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/topology"
	mgmtcontrollers "github.com/drover-io/drover/pkg/generated/controllers/management.cattle.io/v3"
	provcontrollers "github.com/drover-io/drover/pkg/generated/controllers/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/wakeup"
	"github.com/drover-io/drover/pkg/observe/events"
	"github.com/drover-io/drover/pkg/reach/proxy"
)

// Hosts persist handlerName in metrics, do not change.
const handlerName = "cluster-sync"

// indexSources finds the objects that a cluster, or a whole namespace, is authorized to get.
const indexSources = "cluster-sync-sources"

// Deps holds the controller's dependencies and settings.
type Deps struct {
	Clusters           provcontrollers.ClusterController
	ManagementClusters mgmtcontrollers.ClusterController
	Secrets            corecontrollers.SecretController
	ConfigMaps         corecontrollers.ConfigMapController
	Downstream         proxy.ClientGetter
	// Tunnel reports when agents dial in; nil means that there is no tunnel.
	Tunnel Tunnel
	// InstanceID marks the Clusters of this instance.
	InstanceID string
	// Announce records an Event; nil records none.
	Announce func(events.Event)
	// Log reports clusters that do not answer; nil means the standard logger.
	Log logrus.FieldLogger
	// Now is the clock; nil means the system's.
	Now func() time.Time
}

// Tunnel knows the clusters whose agent has dialed in; tunnel.Server implements it.
type Tunnel interface {
	// Connected reports whether an agent of the management cluster with that name is connected here.
	Connected(id string) bool
	// Subscribe calls listener, until ctx ends, with the name of each management cluster whose connection changes.
	Subscribe(ctx context.Context, listener func(id string))
}

type handler struct {
	Deps
	clusters   provcontrollers.ClusterCache
	management mgmtcontrollers.ClusterCache
	secrets    corecontrollers.SecretCache
	configMaps corecontrollers.ConfigMapCache
	visits     *proxy.Visits

	mu sync.Mutex
	// known holds the clusters that the handler has seen. Before that, the caches may be incomplete.
	known map[types.NamespacedName]*memory
}

// memory is what is remembered about a cluster. It is lost with the process.
type memory struct {
	// settled is the version of the sources at the last complete visit.
	settled string
	// problems are the announced problems by source.
	problems map[target]string
}

// Register adds the handler, its indexes and its wake-ups. Everything it starts ends with ctx.
func Register(ctx context.Context, d Deps) error {
	if d.Log == nil {
		d.Log = logrus.StandardLogger()
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Announce == nil {
		d.Announce = func(events.Event) {}
	}
	h := &handler{
		Deps: d, clusters: d.Clusters.Cache(), management: d.ManagementClusters.Cache(), secrets: d.Secrets.Cache(),
		configMaps: d.ConfigMaps.Cache(), known: map[types.NamespacedName]*memory{},
	}
	h.visits = proxy.NewVisits(ctx, h.visit, d.Log.WithField("controller", handlerName),
		"Cannot update the copies of Secrets and ConfigMaps in a cluster; Drover retries")
	h.clusters.AddIndexer(provv1.IndexByCluster, topology.ByManagementCluster)
	h.secrets.AddIndexer(indexSources, func(s *corev1.Secret) ([]string, error) { return authorized(s), nil })
	h.configMaps.AddIndexer(indexSources, func(c *corev1.ConfigMap) ([]string, error) { return authorized(c), nil })
	d.Clusters.OnChange(ctx, handlerName, h.onChange)
	if err := errors.Join(
		wakeup.On(ctx, h, func(s *corev1.Secret) []wakeup.Key { return h.of(authorized(s)) }, d.Secrets),
		wakeup.On(ctx, h, func(c *corev1.ConfigMap) []wakeup.Key { return h.of(authorized(c)) }, d.ConfigMaps),
		wakeup.On(ctx, h, func(c *mgmtv3.Cluster) []wakeup.Key { return h.withManagement(c.Name) },
			d.ManagementClusters),
	); err != nil {
		return fmt.Errorf("watch for copies in clusters: %w", err)
	}
	if d.Tunnel != nil {
		d.Tunnel.Subscribe(ctx, h.session)
	}
	return nil
}

// of returns the Clusters of index keys.
func (h *handler) of(keys []string) []wakeup.Key {
	var out []wakeup.Key
	for _, key := range keys {
		namespace, name, _ := strings.Cut(key, "/")
		if name != everyCluster {
			out = append(out, wakeup.Key{Namespace: namespace, Name: name})
			continue
		}
		h.mu.Lock()
		for known := range h.known {
			if known.Namespace == namespace {
				out = append(out, wakeup.Key{Namespace: namespace, Name: known.Name})
			}
		}
		h.mu.Unlock()
	}
	return out
}

func (h *handler) withManagement(id string) []wakeup.Key {
	return wakeup.Found(h.clusters, provv1.IndexByCluster, id)
}

// session handles an agent that connected or disconnected. The cluster may have changed meanwhile.
func (h *handler) session(id string) {
	if !h.Tunnel.Connected(id) {
		return
	}
	for _, key := range h.withManagement(id) {
		name := types.NamespacedName{Namespace: key.Namespace, Name: key.Name}
		if h.knows(name) {
			h.settle(name, "")
			h.visits.Connected(name)
		}
	}
}

// EnqueueAfter implements wakeup.Target. An event of another object wakes only this controller, because the queue of
// Clusters runs the handlers of all controllers.
func (h *handler) EnqueueAfter(namespace, name string, _ time.Duration) {
	if !h.knows(types.NamespacedName{Namespace: namespace, Name: name}) {
		return // the handler sees the Cluster when the caches are complete
	}
	if cluster, err := h.clusters.Get(namespace, name); err == nil {
		if _, err := h.onChange(namespace+"/"+name, cluster); err != nil {
			h.Clusters.EnqueueAfter(namespace, name, 0)
		}
	}
}

// onChange selects the clusters to visit. Work that depends on a cluster's answers must not block the shared work
// queue.
func (h *handler) onChange(key string, cluster *provv1.Cluster) (*provv1.Cluster, error) {
	if !h.ours(cluster) {
		namespace, name, _ := strings.Cut(key, "/")
		h.forget(types.NamespacedName{Namespace: namespace, Name: name})
		return cluster, nil
	}
	name := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	facts, err := h.gather(cluster)
	if err != nil {
		return cluster, err
	}
	if settled := h.learn(name); facts.reachable && settled != facts.version() {
		h.visits.Wake(name)
	}
	return cluster, nil
}

func (h *handler) ours(cluster *provv1.Cluster) bool {
	return cluster != nil && cluster.DeletionTimestamp == nil && cluster.Status.ClusterName != "" &&
		topology.IsOurs(cluster, h.InstanceID)
}

// learn remembers a cluster, and returns the version of the sources at its last complete visit.
func (h *handler) learn(name types.NamespacedName) (settled string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known[name] == nil {
		h.known[name] = &memory{problems: map[target]string{}}
	}
	return h.known[name].settled
}

func (h *handler) knows(name types.NamespacedName) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[name] != nil
}

func (h *handler) forget(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.known, name)
}

func (h *handler) settle(name types.NamespacedName, version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.known[name]; known != nil {
		known.settled = version
	}
}
