package clients

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Delays of an object whose handlers fail: the first retries come at once, and the delay doubles to half a minute; from the thirty-first
// failure in a row it is two minutes. One success ends it.
const (
	firstRetry  = 5 * time.Millisecond
	slowRetry   = 30 * time.Second
	lastRetry   = 2 * time.Minute
	failuresMax = 30
)

// fairQueue is a list of keys for each namespace, which are taken from in turn: who adds two hundred keys waits for two hundred turns,
// everybody else for one. It is workqueue's Queue, and its keys are NAMESPACE/NAME.
type fairQueue struct {
	turns   []string // namespaces that have keys, the next one first
	waiting map[string][]string
	length  int
}

func newFairQueue() *fairQueue { return &fairQueue{waiting: map[string][]string{}} }

func (q *fairQueue) Touch(string) {}

func (q *fairQueue) Len() int { return q.length }

func (q *fairQueue) Push(key string) {
	namespace := namespaceOf(key)
	if len(q.waiting[namespace]) == 0 {
		q.turns = append(q.turns, namespace)
	}
	q.waiting[namespace] = append(q.waiting[namespace], key)
	q.length++
}

func (q *fairQueue) Pop() string {
	namespace := q.turns[0]
	q.turns = q.turns[1:]
	keys := q.waiting[namespace]
	if len(keys) > 1 {
		q.waiting[namespace] = keys[1:]
		q.turns = append(q.turns, namespace)
	} else {
		delete(q.waiting, namespace)
	}
	q.length--
	return keys[0]
}

func namespaceOf(key string) string {
	namespace, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return namespace
}

// workers run the handlers of one kind: namespaces in turn, and never all of them for one namespace, whose handlers may wait for a cluster
// that does not answer. The framework's own queue, which knows no namespaces, only brings the keys.
type workers struct {
	name     string
	informer func() cache.SharedIndexInformer
	run      func(key string, obj runtime.Object) error

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[string] // nil until the start
	early []string
	// limit is how many handlers of one namespace run at the same time. running counts them; parked are keys that are over the limit.
	limit   int
	running map[string]int
	parked  map[string][]string
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

// OnChange is the framework's handler of the kind. It only queues the key, and so never fails.
func (w *workers) OnChange(key string, _ runtime.Object) (runtime.Object, error) {
	w.add(key)
	return nil, nil
}

// start runs as many workers until ctx ends. A second start does nothing.
func (w *workers) start(ctx context.Context, count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil || ctx.Err() != nil {
		return
	}
	w.limit, w.running, w.parked = max(1, count-1), map[string]int{}, map[string][]string{}
	limiter := workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemFastSlowRateLimiter[string](time.Millisecond, lastRetry, failuresMax),
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, slowRetry),
	)
	config := workqueue.TypedQueueConfig[string]{Name: w.name, Queue: newFairQueue()}
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
			}
		}()
	}
}

// handle runs the handlers of one object, or parks its key. A key that is parked counts as being worked on, so it is there once.
func (w *workers) handle(queue workqueue.TypedRateLimitingInterface[string], key string) {
	namespace := namespaceOf(key)
	if !w.enter(namespace, key) {
		return
	}
	err := w.once(key)
	if err == nil {
		queue.Forget(key)
	} else {
		if !strings.Contains(err.Error(), "please apply your changes to the latest version and try again") {
			logrus.WithFields(logrus.Fields{"kind": w.name, "key": key}).Errorf("Handling failed and is tried again: %v", err)
		}
		queue.AddRateLimited(key)
	}
	queue.Done(key)
	if next, found := w.leave(namespace); found {
		queue.Done(next)
		queue.Add(next)
	}
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

func (w *workers) enter(namespace, key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[namespace] >= w.limit {
		w.parked[namespace] = append(w.parked[namespace], key)
		return false
	}
	w.running[namespace]++
	return true
}

// leave returns a parked key that has a place now.
func (w *workers) leave(namespace string) (next string, found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[namespace]--; w.running[namespace] == 0 {
		delete(w.running, namespace)
	}
	parked := w.parked[namespace]
	switch len(parked) {
	case 0:
		return "", false
	case 1:
		delete(w.parked, namespace)
	default:
		w.parked[namespace] = parked[1:]
	}
	return parked[0], true
}
