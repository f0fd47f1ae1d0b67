package capi

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/pkg/kube/capi/hold"
	"github.com/drover-io/drover/pkg/kube/capi/thrift"
)

// flushTimeout is how long writing the held statuses may take at the end. The next leader may wait for it, and the
// chart depends on it (drover.timeToEnd).
const flushTimeout = 5 * time.Second

// queues are the queues of the controllers, by name.
type queues struct {
	mu     sync.Mutex
	byName map[string]workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// remember returns a function that creates queues as create does.
func (q *queues) remember(create thrift.NewQueue) thrift.NewQueue {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.
		TypedRateLimitingInterface[reconcile.Request] {
		queue := create(name, limiter)
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.byName == nil {
			q.byName = map[string]workqueue.TypedRateLimitingInterface[reconcile.Request]{}
		}
		q.byName[name] = queue
		return queue
	}
}

// add queues an object.
func (q *queues) add(controller string, request reconcile.Request) {
	if queue := q.find(controller); queue != nil {
		queue.Add(request)
	}
}

// again queues an object with the delay after an error.
func (q *queues) again(controller string, request reconcile.Request) {
	if queue := q.find(controller); queue != nil {
		queue.AddRateLimited(request)
	}
}

func (q *queues) find(controller string) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byName[controller]
}

// holding returns the client of a thrifty core for one controller, and the queues that report to it.
func (c *Core) holding(opts Options) (clientOf func(controller string) client.Client, create thrift.NewQueue) {
	known := &queues{}
	c.held = hold.New(c.thrift.Client(c.manager.GetClient()), hold.Options{
		Window: opts.window, MaxWindow: opts.window, Live: c.manager.GetAPIReader(), Wake: known.add,
		Requeue: known.again, Log: opts.Log,
	})
	return func(controller string) client.Client { return c.held.For(controller) },
		known.remember(c.thrift.Queues(c.held.Finished))
}

// flush writes the statuses that are held when the controllers have ended.
func (c *Core) flush(ctx context.Context) error {
	if c.held == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	return c.held.Flush(ctx)
}
