// Package priority creates the queues of Cluster API's controllers. They are controller-runtime's priority queues, but
// they always end.
//
// When a priority queue of controller-runtime v0.24 shuts down, it may give out an object that no worker waits for
// anymore (https://github.com/kubernetes-sigs/controller-runtime/issues/3538). It then blocks, with its locks. A worker
// that finishes a reconcile waits for these locks, and the manager waits for the worker until its grace period is over.
// v0.25 has the fix, but needs the next minor version of Kubernetes' libraries.
package priority

import (
	"fmt"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// NewQueue creates the queue of a controller. It is a NewQueue of controller-runtime's controller options.
func NewQueue(controller string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.
	TypedRateLimitingInterface[reconcile.Request] {
	return New(controller, limiter)
}

// New creates the queue of a controller.
func New(controller string,
	limiter workqueue.TypedRateLimiter[reconcile.Request]) priorityqueue.PriorityQueue[reconcile.Request] {
	return &queue{PriorityQueue: priorityqueue.New(controller, func(o *priorityqueue.Opts[reconcile.Request]) {
		o.RateLimiter = limiter
	})}
}

// queue shuts down the queue within it when no worker waits there.
type queue struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	mu sync.Mutex
	// waiting is the number of calls of GetWithPriority that have not returned.
	waiting int
	ended   bool
}

// Get implements workqueue.TypedInterface.
func (q *queue) Get() (reconcile.Request, bool) {
	request, _, end := q.GetWithPriority()
	return request, end
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *queue) GetWithPriority() (reconcile.Request, int, bool) {
	if !q.enter() {
		return reconcile.Request{}, 0, true
	}
	request, priority, end := q.PriorityQueue.GetWithPriority()
	return request, priority, q.leave() || end
}

// enter counts a worker that waits. It returns false if the queue has ended.
func (q *queue) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false
	}
	q.waiting++
	return true
}

// leave reports whether the queue has ended. The last worker that has waited ends the queue within.
func (q *queue) leave() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting--
	if q.ended && q.waiting == 0 {
		q.PriorityQueue.ShutDown()
	}
	return q.ended
}

// ShutDown implements workqueue.TypedInterface. It wakes every worker that waits with an object, which the worker does
// not reconcile.
func (q *queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	q.ended = true
	if q.waiting == 0 {
		q.PriorityQueue.ShutDown()
		return
	}
	last := make([]reconcile.Request, q.waiting)
	for i := range last {
		last[i].Name = fmt.Sprintf("(end %d)", i)
	}
	q.AddWithOpts(priorityqueue.AddOpts{}, last...)
}

// ShutDownWithDrain implements workqueue.TypedInterface. As in controller-runtime, it does not drain.
func (q *queue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown implements workqueue.TypedInterface.
func (q *queue) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}
