package clients

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Delays of an object whose handlers fail. The first retries come at once. The delay doubles up to half a minute, and
// is two minutes from the thirty-first failure in a row. One success resets it.
const (
	firstRetry  = 5 * time.Millisecond
	slowRetry   = 30 * time.Second
	lastRetry   = 2 * time.Minute
	failuresMax = 30
)

// fairQueue has a list of keys for each namespace, and serves namespaces in turn. A namespace that adds two hundred
// keys waits two hundred turns for the last one, and every other namespace waits one turn.
//
// A namespace uses at most as many workers as remain free for the others, because its handlers may wait for a cluster
// that does not answer. Further keys stay in the queue, and count as waiting there.
//
// It implements workqueue's Queue. Keys are NAMESPACE/NAME. The length that workqueue sees is what a worker may take
// now.
type fairQueue struct {
	mu      sync.Mutex
	turns   []string // namespaces that have keys, the next one first
	waiting map[string][]string
	// free is the number of free workers. running is the number of running handlers, by namespace.
	free    int
	running map[string]int
}

func newFairQueue(workers int) *fairQueue {
	return &fairQueue{waiting: map[string][]string{}, free: workers, running: map[string]int{}}
}

func (q *fairQueue) Touch(string) {}

// Len is positive when Pop can return a key.
func (q *fairQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next() < 0 {
		return 0
	}
	return 1
}

func (q *fairQueue) Push(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := namespaceOf(key)
	if len(q.waiting[namespace]) == 0 {
		q.turns = append(q.turns, namespace)
	}
	q.waiting[namespace] = append(q.waiting[namespace], key)
}

// Pop gives a key to a worker. The worker calls leave when it is done with the key.
func (q *fairQueue) Pop() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn := q.next()
	namespace := q.turns[turn]
	q.turns = slices.Delete(q.turns, turn, turn+1)
	keys := q.waiting[namespace]
	if len(keys) > 1 {
		q.waiting[namespace] = keys[1:]
		q.turns = append(q.turns, namespace)
	} else {
		delete(q.waiting, namespace)
	}
	q.running[namespace]++
	q.free--
	return keys[0]
}

// next returns the index of the first namespace in turn that has a share left, or -1. A namespace gets its first worker
// if any is free, and each further one only while fewer of its handlers run than workers are free. Only many namespaces
// together can use all workers.
func (q *fairQueue) next() int {
	return slices.IndexFunc(q.turns, func(namespace string) bool { return q.running[namespace] < q.free })
}

// leave ends the work on a key. The same worker then takes the next key, so no other needs a signal.
func (q *fairQueue) leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := namespaceOf(key)
	q.free++
	if q.running[namespace]--; q.running[namespace] == 0 {
		delete(q.running, namespace)
	}
}

func namespaceOf(key string) string {
	namespace, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return namespace
}

// workers run the handlers of one kind. They serve namespaces in turn, and a few namespaces never use all workers. The
// framework's own queue, which ignores namespaces, only passes keys.
type workers struct {
	name     string
	informer func() cache.SharedIndexInformer
	run      func(key string, obj runtime.Object) error
	// concerns reports whether a handler has to run for an object, which is nil after its deletion. Nil means always.
	concerns func(key string, obj runtime.Object) bool

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[string] // nil until the start
	early []string
}

// add queues a key.
func (w *workers) add(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		w.early = append(w.early, key)
		return
	}
	w.queue.Add(key)
}

// OnChange is the framework's handler of the kind. It only queues the key if the object concerns a handler, and so
// never fails.
func (w *workers) OnChange(key string, obj runtime.Object) (runtime.Object, error) {
	if w.concerns == nil || w.concerns(key, obj) {
		w.add(key)
	}
	return nil, nil
}

// start runs count workers until ctx ends. A second start does nothing.
func (w *workers) start(ctx context.Context, count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil || ctx.Err() != nil {
		return
	}
	limiter := workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemFastSlowRateLimiter[string](time.Millisecond, lastRetry, failuresMax),
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, slowRetry),
	)
	turns := newFairQueue(count)
	config := workqueue.TypedQueueConfig[string]{Name: w.name, Queue: turns}
	w.queue = workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[string]{
		Name: w.name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
			Name: w.name, Queue: workqueue.NewTypedWithConfig(config),
		}),
	})
	for _, key := range w.early {
		w.queue.Add(key)
	}
	w.early = nil
	queue := w.queue
	context.AfterFunc(ctx, queue.ShutDown)
	for range count {
		go func() {
			for {
				key, end := queue.Get()
				if end {
					return
				}
				w.handle(queue, key)
				turns.leave(key)
				queue.Done(key)
			}
		}()
	}
}

// handle runs the handlers of one object, and queues it again with back-off after a failure.
func (w *workers) handle(queue workqueue.TypedRateLimitingInterface[string], key string) {
	err := w.once(key)
	if err == nil {
		queue.Forget(key)
		return
	}
	if !strings.Contains(err.Error(), "please apply your changes to the latest version and try again") {
		logrus.WithFields(logrus.Fields{"kind": w.name, "key": key}).Errorf("Handler failed; trying again: %v", err)
	}
	queue.AddRateLimited(key)
}

func (w *workers) once(key string) error {
	obj, exists, err := w.informer().GetStore().GetByKey(key)
	if err != nil {
		return err
	}
	if !exists {
		return w.run(key, nil)
	}
	typed, _ := obj.(runtime.Object)
	return w.run(key, typed)
}
