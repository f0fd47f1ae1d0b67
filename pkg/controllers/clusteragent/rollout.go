package clusteragent

import (
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// patience is how long a new agent may take to connect, including its image pull, before it counts as lost.
	patience = 5 * time.Minute
	// most limits how many clusters are updated at the same time.
	most = 16
	// suspicious is the number of lost agents that stops the rollout, if they are more than a tenth of those that have
	// connected.
	suspicious = 3
	// quiet is the time without updates after which the rollout starts with one cluster again.
	quiet = 10 * time.Minute
)

// rollout decides when each cluster gets a new agent. A problem of an agent often affects all clusters, such as an
// image that cannot be pulled. So one cluster starts, and each agent that connects lets one more cluster update at the
// same time. If several do not connect, the rollout stops until they connect or their target changes.
type rollout struct {
	mu sync.Mutex
	// under holds the clusters whose new agent has not connected yet.
	under map[types.NamespacedName]pendingUpdate
	// back counts agents that have connected since the rollout started; last is the time of its last event.
	back int
	last time.Time
	// waiting holds the clusters that wait for their turn, in order.
	waiting []types.NamespacedName
	stopped bool
}

// pendingUpdate is an update in progress.
type pendingUpdate struct {
	version string
	at      time.Time
}

func newRollout() *rollout { return &rollout{under: map[types.NamespacedName]pendingUpdate{}} }

// take reports whether a cluster may get a new agent now. If not, the cluster waits. A cluster whose update is in
// progress may get a newer one at any time.
func (r *rollout) take(name types.NamespacedName, version string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, again := r.under[name]; !again {
		if len(r.under) == 0 && now.Sub(r.last) > quiet {
			r.back = 0
		}
		if r.room(now) == 0 {
			if !slices.Contains(r.waiting, name) {
				r.waiting = append(r.waiting, name)
			}
			return false
		}
	}
	r.under[name], r.last = pendingUpdate{version: version, at: now}, now
	r.dequeue(name)
	return true
}

// room returns how many more clusters may update.
func (r *rollout) room(now time.Time) int {
	lost := r.lost(now)
	if len(lost) >= suspicious && len(lost)*10 > r.back {
		return 0
	}
	return max(0, min(1+r.back, most)-(len(r.under)-len(lost)))
}

// lost returns the clusters whose agents should have connected by now.
func (r *rollout) lost(now time.Time) []types.NamespacedName {
	var lost []types.NamespacedName
	for name, update := range r.under {
		if now.Sub(update.at) >= patience {
			lost = append(lost, name)
		}
	}
	return lost
}

// watch records an update in progress that was found in a cluster, if it is unknown.
func (r *rollout) watch(name types.NamespacedName, version string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.under[name]; !ok || known.version != version {
		r.under[name], r.last = pendingUpdate{version: version, at: now}, now
	}
}

// succeeded records that a cluster's agent is up to date.
func (r *rollout) succeeded(name types.NamespacedName, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.under[name]; ok {
		delete(r.under, name)
		r.back++
		r.last = now
	}
	r.dequeue(name)
}

// disconnected records that no agent of a cluster is connected, old or new. The old agent runs until the new one is
// available, so the new one is not the cause. A cluster that is disconnected for long delays no others.
func (r *rollout) disconnected(name types.NamespacedName, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if update, ok := r.under[name]; ok && now.Sub(update.at) >= patience {
		delete(r.under, name)
	}
}

// forget drops a cluster that gets no agent from here, or none now.
func (r *rollout) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.under, name)
	r.dequeue(name)
}

func (r *rollout) dequeue(name types.NamespacedName) {
	r.waiting = slices.DeleteFunc(r.waiting, func(other types.NamespacedName) bool { return other == name })
}

// pending reports whether a cluster's agent is still expected, and when to check again.
func (r *rollout) pending(name types.NamespacedName, now time.Time) (again time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	update, ok := r.under[name]
	if !ok {
		return 0, false
	}
	if left := patience - now.Sub(update.at); left > 0 {
		return min(left, 10*time.Second), true
	}
	return time.Minute, true
}

// next removes from the line the clusters whose turn it is. A cluster that finds no room then, or cannot be updated,
// must queue again.
func (r *rollout) next(now time.Time) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.waiting), r.room(now))
	next := slices.Clone(r.waiting[:n])
	r.waiting = slices.Delete(r.waiting, 0, n)
	return next
}

// state returns the number of expected agents, the lost ones, the number of waiting clusters, and whether the rollout
// is stopped. changed means that stopped differs from the last call.
func (r *rollout) state(now time.Time) (s rolloutState, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.lost = r.lost(now)
	slices.SortFunc(s.lost, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	s.under, s.waiting = len(r.under), len(r.waiting)
	s.stopped = len(s.lost) >= suspicious && len(s.lost)*10 > r.back
	changed, r.stopped = s.stopped != r.stopped, s.stopped
	return s, changed
}

type rolloutState struct {
	lost           []types.NamespacedName
	under, waiting int
	stopped        bool
}

// isRolledOut reports whether an agent of the current manifest is connected, because pods become available when they
// connect. Old pods may still be available, so it needs more available pods than old ones.
func isRolledOut(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas > 0 &&
		s.AvailableReplicas > s.Replicas-s.UpdatedReplicas
}
