package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/kube/wakeup"
)

// Tunnel knows the clusters whose agent has dialed in; tunnel.Server is one.
type Tunnel interface {
	// Connected tells whether an agent of the management cluster with that name is connected here.
	Connected(id string) bool
	// Subscribe calls back, until ctx ends, with the name of each management cluster of which that has changed.
	Subscribe(ctx context.Context, listener func(id string))
}

// agentGrace is how long agents have after the begin of a term to come back, before a cluster whose agent is not there counts as
// disconnected: when the server starts, all of them come at once.
const agentGrace = time.Minute

// How long it may take to take an agent out of a cluster, and after how long a cluster is let go of although that fails.
const (
	uninstallTimeout = 10 * time.Second
	uninstallTries   = time.Minute
)

// link is how the agent of a cluster is connected. Its zero value is that of a cluster that has none yet.
type link struct {
	// agent is true once an agent of the cluster has been connected: the tunnel is the way to it from then on.
	agent bool
	// connected is true while one is.
	connected bool
	// lost is true when none is, although there has been time enough to come back.
	lost bool
}

// met are the clusters whose agents were connected in this term, by the name of the management cluster.
type met struct {
	mu    sync.Mutex
	names map[string]bool
}

func (m *met) add(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names = map[string]bool{}
	}
	m.names[name] = true
}

func (m *met) has(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names[name]
}

func (m *met) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, name)
}

// linkOf tells how the agent of a cluster is connected. Where it may still come back, the cluster is looked at again when that time is over.
func (h *handler) linkOf(cluster *provv1.Cluster, management *mgmtv3.Cluster, now time.Time) link {
	if h.Tunnel == nil || management == nil {
		return link{}
	}
	if h.Tunnel.Connected(management.Name) {
		h.met.add(management.Name)
		return link{agent: true, connected: true}
	}
	if !conditions.IsTrue(management.Status.Conditions, mgmtv3.ClusterConditionAgentDeployed) {
		return link{}
	}
	left := h.began.Add(agentGrace).Sub(now)
	if h.met.has(management.Name) || left <= 0 {
		return link{agent: true, lost: true}
	}
	h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, left)
	return link{agent: true}
}

// ofAgent wakes the cluster whose agent has come or gone.
func (h *handler) ofAgent(id string) {
	for _, key := range h.keysOf(id) {
		h.Clusters.EnqueueAfter(key.Namespace, key.Name, 0)
	}
}

// keysOf are the Clusters of a management cluster.
func (h *handler) keysOf(id string) []wakeup.Key {
	return wakeup.Found(h.clusters, provv1.IndexByCluster, id)
}

// letGo takes the agent out of a cluster that was imported, if it is connected: afterwards nobody can, and it would ask in vain to be let in for as
// long as the cluster exists. The machines of other clusters are removed.
func (h *handler) letGo(cluster *provv1.Cluster) error {
	if h.Uninstall == nil || h.Tunnel == nil || cluster.Spec.RKEConfig != nil || !h.Tunnel.Connected(cluster.Status.ClusterName) {
		return nil
	}
	ctx, cancel := context.WithTimeout(h.ctx, uninstallTimeout)
	defer cancel()
	err := h.Uninstall(ctx, nameOf(cluster))
	if err == nil || cluster.DeletionTimestamp != nil && h.Now().Sub(cluster.DeletionTimestamp.Time) > uninstallTries {
		return nil
	}
	return fmt.Errorf("take the agent out of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
}
