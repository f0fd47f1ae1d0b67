package tunnel

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// table holds the sessions of all clusters, oldest first.
type table struct {
	mu       sync.RWMutex
	clusters map[string][]*session
	waiting  map[string][]*session // not used yet
}

// await registers a session that is not used yet. Like add, it returns the surplus sessions.
func (t *table) await(s *session, most int) []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		t.waiting = map[string][]*session{}
	}
	t.waiting[s.registration.Cluster] = append(t.waiting[s.registration.Cluster], s)
	list := t.waiting[s.registration.Cluster]
	return slices.Clone(list[:max(0, len(list)-most)])
}

// add makes a session available for use. It returns the surplus sessions, which the caller must end so that no
// more than most remain.
func (t *table) add(s *session, most int) []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clusters == nil {
		t.clusters = map[string][]*session{}
	}
	without(t.waiting, s)
	t.clusters[s.registration.Cluster] = append(t.clusters[s.registration.Cluster], s)
	list := t.clusters[s.registration.Cluster]
	var out []*session
	for _, i := range surplus(vitals(list), most) {
		out = append(out, list[i])
	}
	return out
}

// remove removes a session.
func (t *table) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	without(t.waiting, s)
	without(t.clusters, s)
}

func without(clusters map[string][]*session, s *session) {
	list := slices.DeleteFunc(slices.Clone(clusters[s.registration.Cluster]), func(other *session) bool {
		return other == s
	})
	if len(list) == 0 {
		delete(clusters, s.registration.Cluster)
		return
	}
	clusters[s.registration.Cluster] = list
}

// best returns the session to use, or nil.
func (t *table) best(cluster string) *session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := t.clusters[cluster]
	if i := newestAlive(vitals(list)); i >= 0 {
		return list[i]
	}
	return nil
}

// ids returns the sorted IDs of clusters with a session.
func (t *table) ids() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.clusters))
}

// all returns all sessions, including unused ones.
func (t *table) all() []*session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Concat(append(slices.Collect(maps.Values(t.clusters)), slices.Collect(maps.Values(t.waiting))...)...)
}

// vital is the health of a session.
type vital struct {
	ended       bool
	quiet, late time.Duration
}

func (v vital) alive() bool { return !v.ended && v.quiet <= v.late }

func vitals(list []*session) []vital {
	out := make([]vital, len(list))
	for i, s := range list {
		out[i] = vital{ended: s.ended(), quiet: s.link.Quiet(), late: s.registration.late()}
	}
	return out
}

// newestAlive returns the index of the session to use, in a list with the oldest first. It is the newest session that
// shows signs of life. Without one it is the session with the latest sign. It is -1 when all have ended.
func newestAlive(list []vital) int {
	found := -1
	for i, v := range slices.Backward(list) {
		switch {
		case v.ended:
		case v.alive():
			return i
		case found < 0 || v.quiet < list[found].quiet:
			found = i
		}
	}
	return found
}

// surplus returns the indexes of sessions to end, so that no more than most remain. Sessions without signs of life come
// first, then the oldest. The newest session always remains.
func surplus(list []vital, most int) []int {
	var order []int
	living := 0
	for i, v := range list {
		if !v.ended {
			living++
			if i < len(list)-1 {
				order = append(order, i)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := list[a].alive(), list[b].alive(); {
		case x == y:
			return a - b
		case y:
			return -1
		}
		return 1
	})
	return order[:min(len(order), max(0, living-most))]
}
