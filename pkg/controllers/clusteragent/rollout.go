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
	// patience is how long a new agent may take to connect before it counts as lost. Its image is pulled in that time.
	patience = 5 * time.Minute
	// most is for how many clusters is waited at the same time.
	most = 16
	// suspicious is how many lost agents stop the others from being replaced, when they are more than a tenth of those that have connected.
	suspicious = 3
	// quiet is after how long without updates the next one is the first of its kind again.
	quiet = 10 * time.Minute
)

// rollout decides which clusters get a new agent when. What is wrong with it is often wrong everywhere, an image that cannot be pulled for example: one
// cluster is first, and each that comes back lets one more follow at a time. When several do not come back, no others follow until they do, or until what
// they are to have changes.
type rollout struct {
	mu sync.Mutex
	// under are the clusters whose new agent has not connected yet.
	under map[types.NamespacedName]begun
	// back is how many have connected since updates began, and last when there was something to do the last time.
	back int
	last time.Time
	// waiting are clusters that have to wait for their turn, the first first.
	waiting []types.NamespacedName
	stopped bool
}

// begun is an update.
type begun struct {
	version string
	at      time.Time
}

func newRollout() *rollout { return &rollout{under: map[types.NamespacedName]begun{}} }

// take tells whether a cluster may get a new agent now. If not, it waits. One whose former update is not over may be given something better at any time.
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
	r.under[name], r.last = begun{version: version, at: now}, now
	r.leaveLine(name)
	return true
}

// room is for how many more clusters there is room.
func (r *rollout) room(now time.Time) int {
	lost := r.lost(now)
	if len(lost) >= suspicious && len(lost)*10 > r.back {
		return 0
	}
	return max(0, min(1+r.back, most)-(len(r.under)-len(lost)))
}

// lost are the clusters whose agents should have connected.
func (r *rollout) lost(now time.Time) []types.NamespacedName {
	var lost []types.NamespacedName
	for name, update := range r.under {
		if now.Sub(update.at) >= patience {
			lost = append(lost, name)
		}
	}
	return lost
}

// watch notes a cluster in which an update was found that is not over, if it is not known.
func (r *rollout) watch(name types.NamespacedName, version string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.under[name]; !ok || known.version != version {
		r.under[name], r.last = begun{version: version, at: now}, now
	}
}

// landed notes that the agent of a cluster is the one that it should be.
func (r *rollout) landed(name types.NamespacedName, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.under[name]; ok {
		delete(r.under, name)
		r.back++
		r.last = now
	}
	r.leaveLine(name)
}

// away notes that no agent of a cluster is connected, neither a new one nor the one before, which stays until then: it is not the new one that is at fault. A
// cluster that is away for long holds up no others.
func (r *rollout) away(name types.NamespacedName, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if update, ok := r.under[name]; ok && now.Sub(update.at) >= patience {
		delete(r.under, name)
	}
}

// forget drops a cluster that gets no agent from here any more, or none now.
func (r *rollout) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.under, name)
	r.leaveLine(name)
}

func (r *rollout) leaveLine(name types.NamespacedName) {
	r.waiting = slices.DeleteFunc(r.waiting, func(other types.NamespacedName) bool { return other == name })
}

// pending tells whether there is waited for the agent of a cluster, and when to look again.
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

// next takes those out of the line whose turn it is. Who finds no room then, or cannot be updated now, has to come again.
func (r *rollout) next(now time.Time) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.waiting), r.room(now))
	next := slices.Clone(r.waiting[:n])
	r.waiting = slices.Delete(r.waiting, 0, n)
	return next
}

// state is how it goes: how many new agents are waited for, and how many of these are lost; how many clusters have to wait; and whether all of these wait
// for the lost ones. changed is true when that is another answer to the last question than before.
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

// over tells whether an agent of the present manifest is connected: pods are available when they are. Pods of the manifest before may be there, too, and all
// others are of the present one.
func over(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas > 0 && s.AvailableReplicas > s.Replicas-s.UpdatedReplicas
}
