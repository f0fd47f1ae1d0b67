package thrift

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func named(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "fleet", Name: name}}
}

// line is a queue with a worker's and an event's view of it.
type line struct {
	*queue
	t        *testing.T
	thrift   *Thrift
	machines toolscache.Store
	log      bytes.Buffer
	begin    time.Time
}

// inLine runs a test of a controller's queue in virtual time.
func inLine(t *testing.T, controller string, test func(*line)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &line{t: t, begin: time.Now(), machines: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)}
		log := logrus.New()
		log.SetOutput(&l.log)
		l.thrift = New(Options{Scheme: runtime.NewScheme(), Log: log})
		l.thrift.caches.add(machineKind, &clusterv1.Machine{}, l.machines)
		l.queue = l.thrift.Queues(nil)(controller, nil).(*queue)
		defer func() { l.ShutDown() }()
		test(l)
	})
}

// next returns the next object and when it started.
func (l *line) next() (string, time.Duration) {
	request, end := l.Get()
	if end {
		l.t.Fatal("the queue has ended")
	}
	return request.Name, time.Since(l.begin)
}

// expect takes the next object, and fails unless it starts between two times.
func (l *line) expect(name string, from, to time.Duration) {
	l.t.Helper()
	got, at := l.next()
	if got != name || at < from || at > to {
		l.t.Fatalf("%s started at %s, want %s from %s to %s", got, at, name, from, to)
	}
}

// run takes the next object and ends its reconcile.
func (l *line) run(name string, from, to time.Duration) {
	l.t.Helper()
	l.expect(name, from, to)
	l.Done(named(name))
}

const soon = 5 * time.Millisecond

// An object starts no sooner than an interval after its last start, however often events queue it. Others do not wait.
func TestQueue_Paces(t *testing.T) {
	intervals := map[string]time.Duration{"machine": machineInterval, "machineset": otherInterval}
	for controller, interval := range intervals {
		t.Run(controller, func(t *testing.T) {
			inLine(t, controller, func(l *line) {
				l.Add(named("a"))
				l.run("a", 0, 0)
				l.Add(named("a"))
				l.Add(named("a"))
				l.Add(named("b"))
				l.run("b", 0, soon)
				l.run("a", interval, interval+soon)
				time.Sleep(time.Minute)
				l.Add(named("a"))
				l.run("a", time.Minute, time.Minute+interval+soon)
				if l.Len() != 0 {
					t.Errorf("%d objects are left", l.Len())
				}
			})
		})
	}
}

// An object waits until the caches show all that was written before its last reconcile ended, for as long as it takes.
// It does not wait for later writes.
func TestQueue_WaitsForCaches(t *testing.T) {
	inLine(t, "machineset", func(l *line) {
		l.machines.Bookmark("1")
		l.Add(named("a"))
		l.Add(named("b"))
		l.expect("a", 0, soon)
		l.run("b", 0, soon)
		l.thrift.writes.saw(machineKind, "10")
		l.Done(named("a"))
		l.thrift.writes.saw(machineKind, "20")
		l.Add(named("a"))
		l.Add(named("b"))
		l.run("b", otherInterval, otherInterval+soon)
		time.AfterFunc(time.Hour, func() { l.machines.Bookmark("9") })
		time.AfterFunc(2*time.Hour, func() { l.machines.Bookmark("10") })
		l.run("a", 2*time.Hour+otherInterval, 2*time.Hour+otherInterval+lastLook+soon)
	})
}

// An object does not wait for writes from before its reconcile, even if a cache never shows them.
func TestQueue_AStuckCacheStopsNoOtherObject(t *testing.T) {
	inLine(t, "machineset", func(l *line) {
		l.machines.Bookmark("1")
		l.Add(named("a"))
		l.expect("a", 0, soon)
		l.thrift.writes.saw(machineKind, "10")
		l.Done(named("a"))
		time.Sleep(time.Minute)
		for range 2 {
			l.Add(named("b"))
			l.run("b", time.Minute, time.Minute+otherInterval+soon)
		}
	})
}

// The API server may stop serving a version. Its informer then never catches up, and nothing reads it.
func TestQueue_CachesOfAnotherVersionDoNotCount(t *testing.T) {
	inLine(t, "machineset", func(l *line) {
		old, current := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc),
			toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
		former := hostKind.GroupKind().WithVersion("v1alpha1")
		l.thrift.caches.add(former, &unstructured.Unstructured{}, old)
		l.thrift.caches.add(hostKind, &unstructured.Unstructured{}, current)
		old.Bookmark("5")
		current.Bookmark("5")
		l.Add(named("a"))
		l.expect("a", 0, soon)
		l.thrift.writes.saw(hostKind, "10")
		l.Done(named("a"))
		current.Bookmark("10")
		l.Add(named("a"))
		l.run("a", otherInterval, otherInterval+soon)
	})
}

// After a restore of the API server's data, versions start again below those of earlier writes.
func TestQueue_VersionsMayGoBack(t *testing.T) {
	inLine(t, "machineset", func(l *line) {
		for _, version := range []string{"1000", "400"} {
			l.Add(named("a"))
			l.expect("a", 0, 2*otherInterval)
			l.thrift.writes.saw(machineKind, version)
			l.machines.Bookmark(version)
			l.Done(named("a"))
		}
		l.Add(named("a"))
		l.run("a", 0, 3*otherInterval)
	})
}

// The first wait is short: caches are usually some milliseconds behind.
func TestQueue_LooksAtCachesSoon(t *testing.T) {
	inLine(t, "machine", func(l *line) {
		l.machines.Bookmark("1")
		l.Add(named("a"))
		l.expect("a", 0, soon)
		l.thrift.writes.saw(machineKind, "10")
		l.Done(named("a"))
		l.Add(named("a"))
		time.AfterFunc(80*time.Millisecond, func() { l.machines.Bookmark("10") })
		l.run("a", 80*time.Millisecond, 80*time.Millisecond+2*firstLook)
	})
}

// Caches that do not catch up are in the log, once for all objects.
func TestQueue_ComplainsAboutCaches(t *testing.T) {
	inLine(t, "machine", func(l *line) {
		l.machines.Bookmark("1")
		for _, name := range []string{"a", "b", "c"} {
			l.Add(named(name))
			l.expect(name, 0, soon)
		}
		l.thrift.writes.saw(machineKind, "10")
		for _, name := range []string{"a", "b", "c"} {
			l.Done(named(name))
			l.Add(named(name))
		}
		time.AfterFunc(complainAfter+5*time.Second, func() { l.machines.Bookmark("10") })
		for range 3 {
			l.next()
		}
		want := "Caches do not show own writes after 10s; the object waits"
		if got := l.log.String(); strings.Count(got, want) != 1 || !strings.Contains(got, "Machine.cluster.x-k8s.io") {
			t.Errorf("log:\n%s", got)
		}
	})
}

// After a write whose result is unknown, an object waits a second.
func TestQueue_WaitsAfterUncertainWrites(t *testing.T) {
	inLine(t, "machineset", func(l *line) {
		l.thrift.writes.lost()
		time.Sleep(10 * time.Second)
		l.Add(named("a"))
		l.expect("a", 10*time.Second, 10*time.Second+soon)
		l.Done(named("a"))
		l.Add(named("a"))
		l.expect("a", 10*time.Second+otherInterval, 10*time.Second+otherInterval+soon)
		time.Sleep(time.Second)
		lost := time.Since(l.begin)
		l.thrift.writes.lost()
		l.Done(named("a"))
		l.Add(named("a"))
		l.run("a", lost+uncertainDelay, lost+uncertainDelay+soon)
	})
}

// Errors delay an object more and more. An event starts it earlier, and success ends the delay.
func TestQueue_BacksOffAfterErrors(t *testing.T) {
	inLine(t, "machineset", func(l *line) {
		l.Add(named("a"))
		var last time.Duration
		for n := range 8 {
			_, at := l.next()
			if least := errorDelay + firstRetry<<max(n-1, 0); n > 0 && at-last < least {
				t.Errorf("repetition %d after %s, want %s or more", n, at-last, least)
			}
			last = at
			l.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, named("a"))
			l.Done(named("a"))
		}
		l.Add(named("a"))
		l.expect("a", last+otherInterval, last+otherInterval+soon)
		l.Forget(named("a"))
		l.AddRateLimited(named("a"))
		l.Done(named("a"))
		l.run("a", last+errorDelay, last+otherInterval+errorDelay+2*firstRetry+soon)
	})
}

// A Machine whose deletion waits for pods rests, although events arrive. So does no other Machine.
func TestQueue_LetsADrainingMachineRest(t *testing.T) {
	for name, test := range map[string]struct {
		deleted bool
		after   time.Duration
		want    time.Duration
	}{
		"a Machine that is being drained":               {true, drainRest, drainRest},
		"a Machine that is deleted and waits otherwise": {true, drainRest - 1, machineInterval},
		"a Machine that stays":                          {false, drainRest, machineInterval},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, machines, func(l *line) {
				machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "a"}}
				if test.deleted {
					machine.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				}
				if err := l.machines.Add(machine); err != nil {
					t.Fatal(err)
				}
				l.Add(named("a"))
				l.expect("a", 0, soon)
				l.AddWithOpts(priorityqueue.AddOpts{After: test.after}, named("a"))
				l.Done(named("a"))
				l.Add(named("a"))
				l.run("a", test.want, test.want+soon)
				l.Add(named("a"))
				l.run("a", test.want+machineInterval, test.want+machineInterval+soon)
			})
		})
	}
}

// The priority of an object survives its waits, and a reconcile that requests a time gets it.
func TestQueue_KeepsPrioritiesAndTimes(t *testing.T) {
	inLine(t, "machineset", func(l *line) {
		low := handler.LowPriority
		for _, name := range []string{"low", "high"} {
			l.Add(named(name))
			l.expect(name, 0, soon)
		}
		l.AddWithOpts(priorityqueue.AddOpts{Priority: &low}, named("low"))
		l.Add(named("high"))
		l.Done(named("low"))
		l.Done(named("high"))
		time.Sleep(time.Second) // no worker is free
		l.run("high", time.Second, time.Second+soon)
		request, priority, _ := l.GetWithPriority()
		if request != named("low") || priority != low {
			t.Errorf("%s has priority %d, want low with %d", request, priority, low)
		}
		l.AddAfter(named("low"), time.Minute)
		l.Done(named("low"))
		l.run("low", time.Second+time.Minute, time.Second+time.Minute+2*otherInterval)
	})
}

// The queue ends while objects wait.
func TestQueue_ShutsDown(t *testing.T) {
	inLine(t, "machineset", func(l *line) {
		l.machines.Bookmark("1")
		l.Add(named("a"))
		l.expect("a", 0, soon)
		l.thrift.writes.saw(machineKind, "10")
		l.Done(named("a"))
		l.Add(named("a"))
		q := l.queue
		l.queue = newQueue(l.thrift, "other") // for the end of the test
		time.AfterFunc(time.Minute, q.ShutDown)
		if request, end := q.Get(); !end {
			t.Errorf("%s started, although the caches are behind", request)
		}
	})
}

// Finished hears of the end of a reconcile before its writes count, so that what it writes then counts too.
func TestQueue_TellsTheEnd(t *testing.T) {
	inLine(t, "machine", func(l *line) {
		l.machines.Bookmark("1")
		var heard []string
		l.queue.finished = func(controller string, request reconcile.Request) {
			heard = append(heard, controller+" "+request.String())
			l.thrift.writes.saw(machineKind, "10")
		}
		l.Add(named("a"))
		l.run("a", 0, soon)
		l.Add(named("a"))
		time.AfterFunc(time.Minute, func() { l.machines.Bookmark("10") })
		l.run("a", time.Minute, time.Minute+lastLook)
		if got := fmt.Sprint(heard); got != "[machine fleet/a machine fleet/a]" {
			t.Errorf("heard %s", got)
		}
	})
}

// Objects that wait for nothing are forgotten.
func TestQueue_Forgets(t *testing.T) {
	inLine(t, "machine", func(l *line) {
		for i := range 5 * leastKept {
			name := fmt.Sprintf("m%d", i)
			l.Add(named(name))
			request, _ := l.Get()
			l.Done(request)
			time.Sleep(time.Millisecond)
		}
		if got := len(l.items); got > 2*leastKept {
			t.Errorf("%d objects are remembered", got)
		}
	})
}

// The queue recognizes the rest of a Machine that drains by its length.
func TestQueue_KnowsTheRestOfClusterAPI(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	dir, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)),
		"core/reconcilers/machine/machine_controller.go"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(source)), " ")
	for _, want := range []string{
		fmt.Sprintf("drainRetryInterval = time.Duration(%d) * time.Second", int(drainRest.Seconds())),
		fmt.Sprintf("waitForVolumeDetachRetryInterval = time.Duration(%d) * time.Second", int(drainRest.Seconds())),
		"DeferNextReconcileForObject(machine, time.Now().Add(drainRetryInterval))",
		"return ctrl.Result{RequeueAfter: drainRetryInterval}, nil",
		"DeferNextReconcileForObject(machine, time.Now().Add(waitForVolumeDetachRetryInterval))",
		"return ctrl.Result{RequeueAfter: waitForVolumeDetachRetryInterval}, nil",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("Cluster API's Machine controller no longer has %q: compare drainRest", want)
		}
	}
}
