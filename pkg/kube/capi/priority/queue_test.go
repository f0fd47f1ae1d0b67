package priority_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/pkg/kube/capi/priority"
)

func newQueue() priorityqueue.PriorityQueue[reconcile.Request] {
	return priority.New("test", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
}

// TestQueue_Ends: the queue shuts down while workers take objects and add others. Controller-runtime's own queue blocks
// within a few rounds.
func TestQueue_Ends(t *testing.T) {
	const workers = 20
	for round := range 300 {
		q := newQueue()
		var all, busy sync.WaitGroup
		busy.Add(workers)
		for worker := range workers {
			all.Go(func() {
				for i := 0; ; i++ {
					if i == 3 {
						busy.Done()
					}
					request := reconcile.Request{}
					request.Name = fmt.Sprint(worker, "-", i)
					q.AddWithOpts(priorityqueue.AddOpts{Priority: new(i % 7)}, request)
					taken, _, end := q.GetWithPriority()
					if end {
						return
					}
					q.Done(taken)
				}
			})
		}
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		busy.Wait()
		q.ShutDown()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatalf("round %d: workers still wait for an object after the end of the queue", round)
		}
	}
}

// TestQueue_EndsIdleWorkers: the queue is empty and workers wait for an object.
func TestQueue_EndsIdleWorkers(t *testing.T) {
	q := newQueue()
	ends := make(chan bool)
	for range 3 {
		go func() { _, end := q.Get(); ends <- end }()
	}
	q.Add(reconcile.Request{})
	if <-ends {
		t.Fatal("the queue ended before its shutdown")
	}
	if q.ShuttingDown() {
		t.Error("the queue shuts down before the request")
	}
	q.ShutDownWithDrain()
	q.ShutDown() // again, without an effect
	for range 2 {
		if !<-ends {
			t.Error("a waiting worker got an object after the shutdown")
		}
	}
	if _, end := q.Get(); !end || !q.ShuttingDown() {
		t.Error("a later worker got an object after the shutdown")
	}
}
