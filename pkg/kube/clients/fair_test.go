package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"
	_ "sigs.k8s.io/controller-runtime/pkg/controller" // provides the metrics of queues, as in the program
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/crds"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

func TestFairQueue_TakesNamespacesInTurn(t *testing.T) {
	t.Parallel()
	q := newFairQueue(100)
	for _, key := range []string{"a/1", "a/2", "a/3", "b/1", "cluster-scoped", "b/2"} {
		q.Push(key)
	}
	var got []string
	for q.Len() > 0 {
		if got = append(got, q.Pop()); len(got) == 2 {
			q.Push("c/1")
		}
	}
	want := []string{"a/1", "b/1", "cluster-scoped", "a/2", "b/2", "c/1", "a/3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// The queue loses nothing, keeps the order within a namespace, and serves no namespace twice while another waits.
func TestFairQueue_LosesAndStarvesNoKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q, model, since := newFairQueue(1000), map[string][]string{}, map[string]map[string]int{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if q.Len() == 0 || rapid.Bool().Draw(t, "push") {
				namespace := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace")
				key := fmt.Sprintf("%s/%d", namespace, i)
				if len(model[namespace]) == 0 {
					since[namespace] = map[string]int{}
				}
				model[namespace] = append(model[namespace], key)
				q.Push(key)
				continue
			}
			key := q.Pop()
			namespace := namespaceOf(key)
			if model[namespace][0] != key {
				t.Fatalf("%s comes before %s", key, model[namespace][0])
			}
			model[namespace] = model[namespace][1:]
			since[namespace] = map[string]int{}
			for other, keys := range model {
				if other == namespace || len(keys) == 0 {
					continue
				}
				if since[other][namespace]++; since[other][namespace] > 1 {
					t.Fatalf("%s is served twice while %s waits", namespace, other)
				}
			}
		}
		left := 0
		for _, keys := range model {
			left += len(keys)
		}
		for ; q.Len() > 0; left-- {
			q.Pop()
		}
		if left != 0 {
			t.Fatalf("%d keys are lost", left)
		}
	})
}

// No namespace runs more handlers than workers remain free for others. Keys wait despite free workers only for this
// reason.
func TestFairQueue_KeepsShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 12).Draw(t, "workers")
		q, waiting, running := newFairQueue(workers), map[string]int{}, map[string]int{}
		var busy []string
		for i := range rapid.IntRange(1, 120).Draw(t, "steps") {
			free := workers - len(busy)
			switch {
			case rapid.Bool().Draw(t, "push"):
				namespace := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "namespace")
				q.Push(fmt.Sprintf("%s/%d", namespace, i))
				waiting[namespace]++
			case q.Len() > 0:
				key := q.Pop()
				namespace := namespaceOf(key)
				if running[namespace] >= free {
					t.Fatalf("%s gets more than its share: it has %d, %d are free", namespace, running[namespace], free)
				}
				busy = append(busy, key)
				waiting[namespace]--
				running[namespace]++
			case len(busy) > 0:
				at := rapid.IntRange(0, len(busy)-1).Draw(t, "ends")
				q.leave(busy[at])
				running[namespaceOf(busy[at])]--
				busy = slices.Delete(busy, at, at+1)
			}
			for namespace, n := range waiting {
				if free := workers - len(busy); n > 0 && running[namespace] < free && q.Len() == 0 {
					t.Fatalf("%s waits with %d running and %d free workers", namespace, running[namespace], free)
				}
			}
		}
	})
}

// noObjects returns an empty cache.
func noObjects() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, &rkev1.RKECluster{}, 0, nil)
}

// handlersOf starts workers with the given handler.
func handlersOf(ctx context.Context, count int, run func(key string) error) *workers {
	w := &workers{name: "test", informer: noObjects, run: func(key string, _ runtime.Object) error { return run(key) }}
	w.start(ctx, count)
	return w
}

// Waiting handlers of one namespace leave a worker for others, and all of them finish.
func TestWorkers_OneNamespaceNeverTakesAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		began, done, most, now := time.Now(), map[string]time.Duration{}, 0, 0
		w := handlersOf(ctx, 5, func(key string) error {
			if namespaceOf(key) == "slow" {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(10 * time.Second)
				mu.Lock()
				now--
				mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			done[key] = time.Since(began)
			return nil
		})
		for i := range 200 {
			w.add(fmt.Sprintf("slow/%d", i))
		}
		time.Sleep(time.Second)
		w.add("quick/1")
		synctest.Wait()
		mu.Lock()
		if took, ok := done["quick/1"]; !ok || took > time.Second {
			t.Errorf("the other namespace waits: done %t after %v", ok, took)
		}
		mu.Unlock()
		time.Sleep(time.Hour)
		mu.Lock()
		if len(done) != 201 || most != 3 {
			t.Errorf("%d of 201 are done, %d in parallel", len(done), most)
		}
		mu.Unlock()
		cancel()
		time.Sleep(time.Minute)
	})
}

// Two namespaces whose handlers hang, with hundreds of objects each, leave a worker for a third. Waiting keys count in
// the queue's depth of /metrics.
func TestWorkers_BlockedNamespacesDoNotStarveOthers(t *testing.T) {
	depth := func(t *testing.T) string {
		t.Helper()
		answer := httptest.NewRecorder()
		promhttp.HandlerFor(ctrlmetrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(answer,
			httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for line := range strings.Lines(answer.Body.String()) {
			if strings.HasPrefix(line, "workqueue_depth{") && strings.Contains(line, `name="hanging"`) {
				return strings.TrimSpace(line[strings.LastIndex(line, " "):])
			}
		}
		return "missing"
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		end, quick := make(chan struct{}), make(chan struct{})
		w := &workers{name: "hanging", informer: noObjects, run: func(key string, _ runtime.Object) error {
			if key == "quick/1" {
				close(quick)
				return nil
			}
			<-end
			return nil
		}}
		w.start(ctx, 5)
		for i := range 400 {
			w.add(fmt.Sprintf("%s/%d", []string{"a", "b"}[i%2], i))
		}
		synctest.Wait()
		if got := depth(t); got != "396" {
			t.Errorf("depth %s with 400 keys, 4 of them running", got)
		}
		w.add("quick/1")
		synctest.Wait()
		select {
		case <-quick:
		default:
			t.Error("the third namespace waits")
		}
		close(end)
		synctest.Wait()
		if got := depth(t); got != "0" {
			t.Errorf("depth %s in the end", got)
		}
		cancel()
		time.Sleep(time.Minute)
	})
}

// A key never runs twice at the same time, and changes in the meantime are not lost, even if its namespace waits for
// its share.
func TestWorkers_RunAKeyOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		busy, last, lastAdded := map[string]bool{}, map[string]time.Time{}, time.Time{}
		w := handlersOf(ctx, 3, func(key string) error {
			mu.Lock()
			if busy[key] {
				t.Errorf("%s runs twice", key)
			}
			busy[key], last[key] = true, time.Now()
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			busy[key] = false
			return nil
		})
		for range 3 {
			lastAdded = time.Now()
			for i := range 10 {
				w.add(fmt.Sprintf("ns/%d", i))
			}
			time.Sleep(1500 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		for i := range 10 {
			if began := last[fmt.Sprintf("ns/%d", i)]; began.Before(lastAdded) {
				t.Errorf("key %d has not run since its last addition", i)
			}
		}
		mu.Unlock()
		cancel()
		time.Sleep(time.Minute)
	})
}

// The retries of a failing handler slow down, and start again at once after a success.
func TestWorkers_FailuresBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		fails, at, began := true, []time.Duration{}, time.Now()
		w := handlersOf(ctx, 2, func(string) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(began))
			if fails {
				return errors.New("no")
			}
			return nil
		})
		w.add("ns/one")
		time.Sleep(2 * time.Hour)
		mu.Lock()
		var gaps []time.Duration
		for i := 1; i < len(at); i++ {
			gaps = append(gaps, at[i]-at[i-1])
		}
		if !slices.IsSorted(gaps) || gaps[0] > 10*time.Millisecond || gaps[len(gaps)-1] != 2*time.Minute ||
			len(at) > 100 {
			t.Errorf("%d runs, delays %v", len(at), gaps)
		}
		fails = false
		mu.Unlock()
		time.Sleep(3 * time.Minute)
		mu.Lock()
		fails, at, began = true, nil, time.Now()
		mu.Unlock()
		w.add("ns/one")
		time.Sleep(time.Second)
		mu.Lock()
		if len(at) < 5 {
			t.Errorf("after a success it ran %d times in a second", len(at))
		}
		mu.Unlock()
		cancel()
		time.Sleep(time.Minute)
	})
}

// Hundreds of slowly failing objects in two namespaces do not delay an object of another.
func TestClients_FailingNamespaceDoesNotStarveOthers(t *testing.T) {
	definitions, err := crds.All()
	check(t, err)
	api := memkube.New(memkube.Options{CRDs: definitions, Namespaces: []string{"a", "b", "c"}})
	run(t, api, Options{}, func(c *Clients, start func()) {
		var mu sync.Mutex
		handled := time.Time{}
		c.RKE.RKECluster().OnChange(c.HandlerContext(), "work",
			func(key string, obj *rkev1.RKECluster) (*rkev1.RKECluster, error) {
				if !strings.HasPrefix(key, "b/") {
					time.Sleep(time.Second)
					return obj, errors.New("no")
				}
				mu.Lock()
				defer mu.Unlock()
				if handled.IsZero() {
					handled = time.Now()
				}
				return obj, nil
			})
		start()
		for i := range 400 {
			namespace := []string{"a", "c"}[i%2]
			_, err := c.RKE.RKECluster().Create(
				&rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("c%d", i)}})
			check(t, err)
		}
		pass(10 * time.Second)
		began := time.Now()
		_, err := c.RKE.RKECluster().Create(
			&rkev1.RKECluster{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "one"}})
		check(t, err)
		pass(time.Minute)
		if took := handled.Sub(began); handled.IsZero() || took > 3*time.Second {
			t.Errorf("handled after %v", took)
		}
	})
}
