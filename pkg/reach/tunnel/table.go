package tunnel

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// table holds the sessions of all clusters, the oldest first.
type table struct {
	mu       sync.RWMutex
	clusters map[string][]*session
	waiting  map[string][]*session // that are not used yet
}

// await notes a session that is not to be used yet, and returns those that have to go, as add does.
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

// add adds a session, which is used from now on, and returns those that have to go, so that no more than the most remain.
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

// remove takes a session out.
func (t *table) remove(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	without(t.waiting, s)
	without(t.clusters, s)
}

func without(clusters map[string][]*session, s *session) {
	list := slices.DeleteFunc(slices.Clone(clusters[s.registration.Cluster]), func(other *session) bool { return other == s })
	if len(list) == 0 {
		delete(clusters, s.registration.Cluster)
		return
	}
	clusters[s.registration.Cluster] = list
}

// best is the session to use; nil when there is none.
func (t *table) best(cluster string) *session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := t.clusters[cluster]
	if i := newestAlive(vitals(list)); i >= 0 {
		return list[i]
	}
	return nil
}

// ids are the clusters that have a session, sorted.
func (t *table) ids() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.clusters))
}

// all are all sessions, those that are not used yet among them.
func (t *table) all() []*session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Concat(append(slices.Collect(maps.Values(t.clusters)), slices.Collect(maps.Values(t.waiting))...)...)
}

// vital is how a session is.
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

// newestAlive is the index of the session to use, of a list that begins with the oldest: the newest one that gives signs of life. When none
// does, it is the one that gave the last; -1 when all have ended.
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

// surplus are the indexes of the sessions that have to go, so that no more than the most remain: those that give no signs of life first, and of
// these and of the others the oldest. The newest one is not among them.
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
