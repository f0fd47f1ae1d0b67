package thrift

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/pkg/kube/capi/priority"
)

const (
	// machineInterval and otherInterval are the least times between two starts of one object. A Machine takes a step
	// with each change, and the other kinds count Machines.
	machineInterval = 50 * time.Millisecond
	otherInterval   = 250 * time.Millisecond
	// uncertainDelay follows a write without a known version. errorDelay precedes the growing delay after errors. Both
	// are as with Cluster API's gate.
	uncertainDelay = time.Second
	errorDelay     = time.Second
	// firstLook and lastLook are the least and the longest time between two looks at caches that lag.
	firstLook, lastLook = 20 * time.Millisecond, 500 * time.Millisecond
	// complainAfter is how long caches may lag without a line in the log.
	complainAfter = 10 * time.Second
	machines      = "machine"
	// drainRest is the time that a Machine requests while its deletion waits for pods or volumes. Cluster API has it
	// as drainRetryInterval and waitForVolumeDetachRetryInterval.
	drainRest = 20 * time.Second
)

// The delays after errors, as of controller-runtime.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 1000 * time.Second
)

// NewQueue creates the queue of a controller, like the option of controller-runtime's controller.
type NewQueue = func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.
	TypedRateLimitingInterface[reconcile.Request]

// Finished is told when a reconcile of a controller has ended, before the writes count that the caches must show.
type Finished func(controller string, request reconcile.Request)

// Queues returns the queues for the controllers. finished may be nil.
func (t *Thrift) Queues(finished Finished) NewQueue {
	return func(controller string, _ workqueue.TypedRateLimiter[reconcile.Request]) workqueue.
		TypedRateLimitingInterface[reconcile.Request] {
		q := newQueue(t, controller)
		if finished != nil {
			q.finished = finished
		}
		return q
	}
}

func newQueue(t *Thrift, controller string) *queue {
	q := &queue{thrift: t, controller: controller, interval: otherInterval, items: map[reconcile.Request]*item{},
		finished: func(string, reconcile.Request) {}}
	if controller == machines {
		q.interval = machineInterval
	}
	q.PriorityQueue = priority.New(controller,
		afterErrors{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)})
	return q
}

// afterErrors delays the repetition of a reconcile with an error.
type afterErrors struct {
	workqueue.TypedRateLimiter[reconcile.Request]
}

// When implements workqueue.TypedRateLimiter.
func (a afterErrors) When(request reconcile.Request) time.Duration {
	return min(errorDelay+a.TypedRateLimiter.When(request), lastRetry)
}

// queue gives out objects whose time has come. The queue within it does everything else, such as priorities and
// metrics.
type queue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	thrift     *Thrift
	controller string
	interval   time.Duration
	finished   Finished

	mu    sync.Mutex
	items map[reconcile.Request]*item
	// kept is the number of items after the last sweep.
	kept int
	// complained is when the last line about late caches was written.
	complained time.Time
}

// item is what the queue knows about an object.
type item struct {
	running bool
	started time.Time
	// rests is the time before which the object does not start.
	rests time.Time
	// unseen are the writes that the caches must show first, and since is when the object first waited for them.
	unseen versions
	since  time.Time
}

// Get implements workqueue.TypedInterface.
func (q *queue) Get() (reconcile.Request, bool) {
	request, _, end := q.GetWithPriority()
	return request, end
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *queue) GetWithPriority() (reconcile.Request, int, bool) {
	for {
		request, priority, end := q.PriorityQueue.GetWithPriority()
		if end {
			return request, priority, end
		}
		wait := q.start(request)
		if wait <= 0 {
			return request, priority, false
		}
		q.PriorityQueue.AddWithOpts(priorityqueue.AddOpts{After: wait, Priority: &priority}, request)
		q.PriorityQueue.Done(request)
	}
}

// start starts an object, or returns how long to wait before the next look.
func (q *queue) start(request reconcile.Request) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	known := q.items[request]
	if known == nil {
		known = &item{}
		q.items[request] = known
	}
	if wait := max(known.started.Add(q.interval).Sub(now), known.rests.Sub(now)); wait > 0 {
		return wait
	}
	if known.unseen = q.thrift.stillUnseen(known.unseen); known.unseen != nil {
		if known.since.IsZero() {
			known.since = now
		}
		q.complain(request, known, now)
		return min(max(now.Sub(known.since)/4, firstLook), lastLook)
	}
	*known = item{running: true, started: now}
	return 0
}

// complain writes a line about caches that do not catch up, but not for each object.
func (q *queue) complain(request reconcile.Request, waits *item, now time.Time) {
	if now.Sub(waits.since) < complainAfter || now.Sub(q.complained) < complainAfter {
		return
	}
	q.complained = now
	var kinds []string
	for kind := range waits.unseen {
		kinds = append(kinds, kind.GroupKind().String())
	}
	slices.Sort(kinds)
	q.thrift.log.WithFields(logrus.Fields{"controller": q.controller, "object": request.String(),
		"kinds": strings.Join(kinds, ", ")}).
		Warnf("Caches do not show own writes after %s; the object waits", now.Sub(waits.since).Round(time.Second))
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *queue) AddWithOpts(opts priorityqueue.AddOpts, requests ...reconcile.Request) {
	if opts.After == drainRest && !opts.RateLimited && q.controller == machines {
		for _, request := range requests {
			q.rest(request)
		}
	}
	q.PriorityQueue.AddWithOpts(opts, requests...)
}

// rest keeps a Machine that is being deleted from an earlier start than its reconcile requests.
func (q *queue) rest(request reconcile.Request) {
	machine := q.thrift.caches.find(clusterv1.GroupVersion.WithKind("Machine"), request.NamespacedName)
	if machine == nil || machine.GetDeletionTimestamp() == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if known := q.items[request]; known != nil && known.running {
		known.rests = time.Now().Add(drainRest)
	}
}

// Done implements workqueue.TypedInterface.
func (q *queue) Done(request reconcile.Request) {
	q.finished(q.controller, request)
	q.note(request)
	q.PriorityQueue.Done(request)
}

// note remembers for what the next start of an object waits: all writes during its reconcile, which include its own.
func (q *queue) note(request reconcile.Request) {
	uncertain := q.thrift.writes.lastUncertain()
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.items[request]
	if known == nil {
		return
	}
	known.running, known.unseen = false, q.thrift.unseen(known.started)
	if !uncertain.Before(known.started) {
		if until := uncertain.Add(uncertainDelay); until.After(known.rests) {
			known.rests = until
		}
	}
	q.sweep(time.Now())
}

// leastKept is how many objects a queue remembers before it sweeps.
const leastKept = 1024

// sweep forgets objects that wait for nothing, when their number has doubled.
func (q *queue) sweep(now time.Time) {
	if len(q.items) < max(leastKept, 2*q.kept) {
		return
	}
	maps.DeleteFunc(q.items, func(_ reconcile.Request, known *item) bool {
		return !known.running && now.Sub(known.started) >= q.interval && !known.rests.After(now) &&
			q.thrift.stillUnseen(known.unseen) == nil
	})
	q.kept = len(q.items)
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = &queue{}
