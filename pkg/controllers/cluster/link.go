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

// Tunnel knows the clusters whose agent has dialed in; tunnel.Server implements it.
type Tunnel interface {
	// Connected reports whether an agent of the management cluster with that name is connected here.
	Connected(id string) bool
	// Subscribe calls listener, until ctx ends, with the name of each management cluster whose connection changes.
	Subscribe(ctx context.Context, listener func(id string))
}

// agentGrace is how long agents may take to reconnect after a leadership term starts. After that, a missing agent
// counts as disconnected. When the server starts, all agents reconnect at once.
const agentGrace = time.Minute

// Limits for removing an agent from a cluster: for one attempt, and for all attempts before the cluster is released
// anyway.
const (
	uninstallTimeout = 10 * time.Second
	uninstallTries   = time.Minute
)

// link is the state of a cluster's agent connection. The zero value means that no agent was ever connected.
type link struct {
	// agent means that an agent of the cluster has connected once. From then on the cluster is reached through the
	// tunnel.
	agent bool
	// connected means that an agent is connected now.
	connected bool
	// lost means that no agent is connected, and the time to reconnect has passed.
	lost bool
}

// met holds the clusters whose agents connected in this term, by the name of the management cluster.
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

// linkOf returns the state of a cluster's agent connection. While the agent may still reconnect, it requeues the
// cluster for the end of that time.
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

// ofAgent wakes the cluster whose agent has connected or disconnected.
func (h *handler) ofAgent(id string) {
	for _, key := range h.keysOf(id) {
		h.Clusters.EnqueueAfter(key.Namespace, key.Name, 0)
	}
}

// keysOf returns the Clusters of a management cluster.
func (h *handler) keysOf(id string) []wakeup.Key {
	return wakeup.Found(h.clusters, provv1.IndexByCluster, id)
}

// letGo removes a connected agent from an imported cluster. Later that is impossible, and the agent would try to
// connect for as long as the cluster exists. In other clusters, the machines are removed anyway.
func (h *handler) letGo(cluster *provv1.Cluster) error {
	if h.Uninstall == nil || h.Tunnel == nil || cluster.Spec.RKEConfig != nil ||
		!h.Tunnel.Connected(cluster.Status.ClusterName) {
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
