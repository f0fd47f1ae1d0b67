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

// backoff counts consecutive failures to create machines of each pool, and gives pools their turns. A failed machine is
// replaced. Without a growing delay, a pool whose machines always fail would keep the API server and a cloud busy
// forever. Hundreds of such pools would do so even with one, and delay all others. The state is in memory: after a
// restart, the first machine is tried at once. The same holds after a change of the pool's template or credential, and
// for a recreated cluster.
type backoff struct {
	// clusterUID returns the UID of a CAPI Cluster, "" if it does not exist. If the function is nil, all Clusters count
	// as existing.
	clusterUID func(namespace, name string) types.UID

	mu sync.Mutex
	// failed holds the failures of each pool by way. started holds the way of each machine that is being created, so
	// that its failure does not count for a credential that was corrected meanwhile.
	failed  map[pool]map[way]*failures
	started map[types.UID]way
}

// pool identifies a machine's pool, way the template and credential it is created with.
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
	// cause is the output of the last failure.
	cause string
	// last is the time of the last failure, turn when the next machine may be created.
	last, turn time.Time
}

const (
	// firstDelay is the delay after the second failure. It doubles with each further one, up to maxDelay.
	firstDelay = 10 * time.Second
	maxDelay   = 10 * time.Minute
	// perPool is the time between the turns of two pools of a namespace, because each failed and replaced machine costs
	// about 150 requests. encouraged is how many pools are tried at once after another one recovers. forgotten is how
	// long a pool without new failures is kept. keptWays is how many ways of a pool are kept.
	perPool    = 30 * time.Second
	encouraged = 2
	forgotten  = 24 * time.Hour
	keptWays   = 4
)

// poolOf returns a machine's pool.
func poolOf(obj *unstructured.Unstructured) pool {
	labels := obj.GetLabels()
	return pool{obj.GetNamespace(), labels[clusterv1.ClusterNameLabel], labels[clusterv1.MachineDeploymentNameLabel]}
}

// wayOf returns the way in which a machine is created.
func wayOf(obj *unstructured.Unstructured, credential map[string][]byte) way {
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(credential)) {
		sum := sha256.Sum256(credential[key])
		hash.Write([]byte(key + "\x00"))
		hash.Write(sum[:])
	}
	return way{obj.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation], [sha256.Size]byte(hash.Sum(nil))}
}

// of returns the failures in a row of machines of the object's pool that were created in the same way.
func (b *backoff) of(obj *unstructured.Unstructured, credential map[string][]byte) failures {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := poolOf(obj)
	ways := b.failed[name]
	if len(ways) == 0 {
		return failures{}
	}
	found := ways[wayOf(obj, credential)]
	if found == nil || !b.isThere(name, found) {
		return failures{}
	}
	return *found
}

// isThere reports that the pool's Cluster is still the one of its last failure.
func (b *backoff) isThere(name pool, found *failures) bool { return found.cluster == b.uid(name) }

func (b *backoff) uid(name pool) types.UID {
	if b.clusterUID == nil {
		return ""
	}
	return b.clusterUID(name.namespace, name.cluster)
}

// news holds the changes of a machine's status.
type news struct{ started, failed, made, released bool }

func newsOf(s machinejob.Snapshot, d machinejob.Decision) news {
	before := s.Machine.Status
	return news{
		started: d.Status.JobName != "" && before.JobName == "",
		failed:  d.Status.FailureReason == rkev1.ReasonCreateError && before.FailureReason != rkev1.ReasonCreateError,
		made:    machinejob.Made(d.Status) && !machinejob.Made(before),
		released: slices.ContainsFunc(d.Actions, func(a machinejob.Action) bool {
			return a.Kind == machinejob.ActionRelease
		}),
	}
}

// note records the result of a machine after its status is written. Only changes count: a machine that was created long
// ago says nothing about current failures.
func (b *backoff) note(obj *unstructured.Unstructured, s machinejob.Snapshot, d machinejob.Decision) {
	news := newsOf(s, d)
	if !news.started && !news.failed && !news.made && !news.released {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	with, known := b.started[obj.GetUID()]
	if !known {
		with = wayOf(obj, s.Credential) // an earlier process started it
	}
	delete(b.started, obj.GetUID())
	switch name := poolOf(obj); {
	case news.failed:
		b.fail(name, with, d.Status.FailureMessage, s.Now)
	case news.made && len(b.failed[name]) > 0:
		delete(b.failed, name)
		b.bringForward(name.namespace, s.Now)
	case news.started && !news.released:
		if b.started == nil {
			b.started = map[types.UID]way{}
		}
		b.started[obj.GetUID()] = with
	}
}

func (b *backoff) fail(name pool, made way, cause string, now time.Time) {
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
	found.cause = cause
	found.last, found.turn = now, b.turnOf(name, found.count, now)
	for len(b.failed[name]) > keptWays {
		delete(b.failed[name], slices.MinFunc(slices.Collect(maps.Keys(b.failed[name])), func(x, y way) int {
			return b.failed[name][x].last.Compare(b.failed[name][y].last)
		}))
	}
}

// latest returns the most recent failures of a pool.
func latest(ways map[way]*failures) *failures {
	return slices.MaxFunc(slices.Collect(maps.Values(ways)), func(x, y *failures) int { return x.last.Compare(y.last) })
}

// forget drops pools whose Cluster no longer exists, or without a failure for long. The deletion of a pool without
// machines causes no event here.
func (b *backoff) forget(now time.Time) {
	maps.DeleteFunc(b.failed, func(name pool, ways map[way]*failures) bool {
		maps.DeleteFunc(ways, func(_ way, found *failures) bool {
			return now.Sub(found.last) > forgotten || !b.isThere(name, found)
		})
		return len(ways) == 0
	})
}

// bringForward gives the next pools their turns at once. A pool has recovered, so the cause of other failures in its
// namespace may have ended too. Each pool that recovers does the same. Soon all are tried, and those that fail again
// have cost little.
func (b *backoff) bringForward(namespace string, now time.Time) {
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

// turnOf returns when the next machine of a pool may be created: after its own delay, at a time when no other pool of
// the namespace has its turn. Pools with one failure, which may be an accident, have turns of their own. They do not
// wait for pools that fail repeatedly.
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

// delay returns how long a pool waits after count failures in a row. The first failure may be an accident and causes no
// delay.
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
