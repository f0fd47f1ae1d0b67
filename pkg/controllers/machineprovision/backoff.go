package machineprovision

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/machinejob"
)

// backoff counts how many machines of each pool could not be made, one after the other, and gives pools their turns. A machine that fails is replaced,
// and without a growing delay a pool whose machines always fail would keep the API server, and a cloud, busy for ever; hundreds of such pools would so even
// with one, and hold up everybody else. It lasts as long as the process does: after a restart the first machine is tried at once. So is one of a
// pool that is edited, and has another template, or that gets another credential, and one of a cluster that is made again.
type backoff struct {
	// clusterUID is that of a Cluster of Cluster API, empty when there is none. Nil knows no Clusters, and then all are there.
	clusterUID func(namespace, name string) types.UID

	mu sync.Mutex
	// failed has the failures of each way in which machines of a pool are made, started the way of each machine that is being made: a credential that was put right
	// meanwhile has not failed.
	failed  map[pool]map[way]*failures
	started map[types.UID]way
}

// pool is what a machine is one of, way what it is made with.
type (
	pool struct{ namespace, cluster, name string }
	way  struct {
		template   string
		credential [sha256.Size]byte
	}
)

type failures struct {
	cluster types.UID
	count   int
	// last is when the last one failed, turn when the next machine may be made.
	last, turn time.Time
}

const (
	// firstDelay and maxDelay bound the delay after the second failure and those that follow. It doubles.
	firstDelay = 10 * time.Second
	maxDelay   = 10 * time.Minute
	// perPool is between the turns of two pools of a namespace: a machine that fails and is replaced costs some 150 requests. encouraged is how many pools are
	// tried at once because another one has recovered, forgotten how long a pool is known that may be gone, and keptWays how many ways of a pool.
	perPool    = 30 * time.Second
	encouraged = 2
	forgotten  = 24 * time.Hour
	keptWays   = 4
)

// poolOf names what a machine is one of.
func poolOf(obj *unstructured.Unstructured) pool {
	labels := obj.GetLabels()
	return pool{obj.GetNamespace(), labels[clusterv1.ClusterNameLabel], labels[clusterv1.MachineDeploymentNameLabel]}
}

// wayOf names what a machine is made with.
func wayOf(obj *unstructured.Unstructured, credential map[string][]byte) way {
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(credential)) {
		sum := sha256.Sum256(credential[key])
		hash.Write([]byte(key + "\x00"))
		hash.Write(sum[:])
	}
	return way{obj.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation], [sha256.Size]byte(hash.Sum(nil))}
}

// of says how many machines of an object's pool that are made like it failed in a row, and when the next one may be made.
func (b *backoff) of(obj *unstructured.Unstructured, credential map[string][]byte) (count int, turn time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := poolOf(obj)
	ways := b.failed[name]
	if len(ways) == 0 {
		return 0, time.Time{}
	}
	found := ways[wayOf(obj, credential)]
	if found == nil || !b.isThere(name, found) {
		return 0, time.Time{}
	}
	return found.count, found.turn
}

// isThere reports that the Cluster of a pool is the one that it had when the last machine failed.
func (b *backoff) isThere(name pool, found *failures) bool { return found.cluster == b.uid(name) }

func (b *backoff) uid(name pool) types.UID {
	if b.clusterUID == nil {
		return ""
	}
	return b.clusterUID(name.namespace, name.cluster)
}

// news is what a machine did not say before.
type news struct{ started, failed, made, released bool }

func newsOf(s machinejob.Snapshot, d machinejob.Decision) news {
	before := s.Machine.Status
	return news{
		started:  d.Status.JobName != "" && before.JobName == "",
		failed:   d.Status.FailureReason == rkev1.ReasonCreateError && before.FailureReason != rkev1.ReasonCreateError,
		made:     machinejob.Made(d.Status) && !machinejob.Made(before),
		released: slices.ContainsFunc(d.Actions, func(a machinejob.Action) bool { return a.Kind == machinejob.ActionRelease }),
	}
}

// note takes in what became of a machine, once it is written down: only what the machine did not say before is news. One that was made long ago, and is
// looked at again, says nothing about those that fail now.
func (b *backoff) note(obj *unstructured.Unstructured, s machinejob.Snapshot, d machinejob.Decision) {
	news := newsOf(s, d)
	if !news.started && !news.failed && !news.made && !news.released {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	with, known := b.started[obj.GetUID()]
	if !known {
		with = wayOf(obj, s.Credential) // it was started by an earlier process
	}
	delete(b.started, obj.GetUID())
	switch name := poolOf(obj); {
	case news.failed:
		b.fail(name, with, s.Now)
	case news.made && len(b.failed[name]) > 0:
		delete(b.failed, name)
		b.encourage(name.namespace, s.Now)
	case news.started && !news.released:
		if b.started == nil {
			b.started = map[types.UID]way{}
		}
		b.started[obj.GetUID()] = with
	}
}

func (b *backoff) fail(name pool, made way, now time.Time) {
	b.forget(now)
	if b.failed == nil {
		b.failed = map[pool]map[way]*failures{}
	}
	if b.failed[name] == nil {
		b.failed[name] = map[way]*failures{}
	}
	found := b.failed[name][made]
	if found == nil {
		found = &failures{cluster: b.uid(name)}
		b.failed[name][made] = found
	}
	found.count++
	found.last, found.turn = now, b.turnOf(name, found.count, now)
	for len(b.failed[name]) > keptWays {
		delete(b.failed[name], slices.MinFunc(slices.Collect(maps.Keys(b.failed[name])), func(x, y way) int {
			return b.failed[name][x].last.Compare(b.failed[name][y].last)
		}))
	}
}

// latest is how a pool fails now.
func latest(ways map[way]*failures) *failures {
	return slices.MaxFunc(slices.Collect(maps.Values(ways)), func(x, y *failures) int { return x.last.Compare(y.last) })
}

// forget lets go of pools whose Cluster is gone, and of those that have not failed for long: nobody says when a pool is gone whose machines never came.
func (b *backoff) forget(now time.Time) {
	maps.DeleteFunc(b.failed, func(name pool, ways map[way]*failures) bool {
		maps.DeleteFunc(ways, func(_ way, found *failures) bool { return now.Sub(found.last) > forgotten || !b.isThere(name, found) })
		return len(ways) == 0
	})
}

// encourage gives the pools whose turns come next theirs at once: one that failed before has recovered, and what others of its namespace failed at may be over as
// well. Each of them that recovers does the same, so that many are soon all tried, and those that fail again have cost little.
func (b *backoff) encourage(namespace string, now time.Time) {
	var waiting []*failures
	for name, ways := range b.failed {
		if found := latest(ways); name.namespace == namespace && found.turn.After(now) {
			waiting = append(waiting, found)
		}
	}
	slices.SortFunc(waiting, func(x, y *failures) int { return x.turn.Compare(y.turn) })
	for _, found := range waiting[:min(encouraged, len(waiting))] {
		found.turn = now
	}
}

// turnOf is when the next machine of a pool may be made: after its own delay, when no other pool of the namespace has its turn. Pools that failed once, which may
// have been an accident, take turns among themselves: they do not wait for those that fail again and again.
func (b *backoff) turnOf(name pool, count int, now time.Time) time.Time {
	var taken []time.Time
	for other, ways := range b.failed {
		if other == name || other.namespace != name.namespace {
			continue
		}
		if found := latest(ways); (found.count == 1) == (count == 1) {
			taken = append(taken, found.turn)
		}
	}
	slices.SortFunc(taken, time.Time.Compare)
	turn := now.Add(delay(count))
	for _, other := range taken {
		if turn.Sub(other).Abs() < perPool {
			turn = other.Add(perPool)
		}
	}
	return turn
}

// delay is how long a pool waits by itself after so many failures in a row. The first one may have been an accident.
func delay(count int) time.Duration {
	if count < 2 {
		return 0
	}
	out := firstDelay
	for range min(count-2, 10) {
		out *= 2
	}
	return min(out, maxDelay)
}
