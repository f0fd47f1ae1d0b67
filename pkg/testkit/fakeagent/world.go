package fakeagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Agent is the user agent of the World's client.
const Agent = "fakeagent"

const workers = 8

// Options describe a World. Config and API are required.
type Options struct {
	// Config is an administrator's access to the management API.
	Config *rest.Config
	// API makes the API of one downstream cluster.
	API func() http.Handler
	// Serve makes an API reachable at an address and returns the function that stops it. Method Unwrap of api returns
	// what API made. Nil means TLS on port 6443 of that address.
	Serve func(address string, api http.Handler, identity Identity) (stop func(), err error)
	// Secrets returns the client through which the agent of a Cluster API Machine reports to its plan Secret. Nil means
	// that agents use Config. An error counts as a network error, and the agent retries.
	Secrets func(ctx context.Context, machine types.NamespacedName) (typedcorev1.SecretInterface, error)
	// Dial connects the cluster agents to the server's HOST:PORT. It may redirect a name later. Nil dials the address
	// itself.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Faults injects failures of machines. Nil injects none.
	Faults Faults
	// Boot is the time from the end of a Job until the agent's first pass. Install is the duration of one application
	// of a plan. Probe is the time after that until probes pass. Retry is the time between two attempts of a failed
	// plan. Zero means at once, except for Probe (50 milliseconds) and Retry (100 milliseconds).
	Boot, Install, Probe, Retry time.Duration
	// Idle is the time between two passes of an agent with nothing to do. They run periodic instructions that are due.
	// Zero means that such an agent waits for an event.
	Idle time.Duration
	// Authorities are certificate authorities in PEM that downloads of node drivers trust in addition to those in the
	// Job. The World runs Jobs that ask a node driver for its flags in this process.
	Authorities string
	// Log, if not nil, receives messages about the machines.
	Log func(format string, args ...any)
}

// Faults injects failures of machines. Several goroutines call its methods.
type Faults interface {
	// Job returns the reason why a Job fails, or "" if it succeeds. While it returns Hangs, the driver does not end,
	// and the World asks again. remove is true for the Job that removes a machine. attempt counts from 1 the Jobs for
	// that machine and purpose.
	Job(machine string, remove bool, attempt int) string
	// Instruction returns the output with which an instruction of a plan fails, or nil if it succeeds. attempt counts
	// from 1 the attempts at that plan. The agent reports an *ExitError as Drover's agent does: with the name of the
	// instruction and the exit code.
	Instruction(machine, name string, attempt int) error
}

// Hangs is the answer of Faults.Job for a driver that neither succeeds nor fails. hangs is the time until the World
// asks again.
const (
	Hangs = "hangs"
	hangs = 100 * time.Millisecond
)

// ExitError is the failure of a command that ran.
type ExitError struct {
	Code   int
	Output string
}

// Error implements error.
func (e *ExitError) Error() string { return e.Output }

// NoFaults injects no failures. Embed it to override one kind of fault.
type NoFaults struct{}

// Job never fails.
func (NoFaults) Job(string, bool, int) string { return "" }

// Instruction never fails.
func (NoFaults) Instruction(string, string, int) error { return nil }

// World simulates machines for one management API.
type World struct {
	opts   Options
	client kubernetes.Interface
	jobs   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	plans  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	jobInformer    cache.SharedIndexInformer
	secretInformer cache.SharedIndexInformer

	// road is nil until Run starts, and without Options.Dial.
	road *road

	mutex    sync.Mutex
	machines map[types.NamespacedName]*machine
	clusters map[types.NamespacedName]*cluster
	attempts map[string]int
	nextHost int
}

// New returns a World that does nothing until Run is called.
func New(opts Options) (*World, error) {
	if opts.Config == nil || opts.API == nil {
		return nil, errors.New("fakeagent: Config and API are required")
	}
	if opts.Faults == nil {
		opts.Faults = NoFaults{}
	}
	if opts.Serve == nil {
		opts.Serve = serveTLS
	}
	if opts.Probe == 0 {
		opts.Probe = 50 * time.Millisecond
	}
	if opts.Retry == 0 {
		opts.Retry = 100 * time.Millisecond
	}
	if opts.Log == nil {
		opts.Log = func(string, ...any) {}
	}
	config := rest.CopyConfig(opts.Config)
	config.UserAgent = Agent
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the management API: %w", err)
	}
	w := &World{
		opts: opts, client: client,
		jobs:     newQueue("jobs"),
		plans:    newQueue("plans"),
		machines: map[types.NamespacedName]*machine{}, clusters: map[types.NamespacedName]*cluster{},
		attempts: map[string]int{},
	}
	return w, w.watch()
}

// Under returns a World with the same machines and clusters whose objects are now in another management API. The old
// World must have ended. The new World's cluster agents dial through dial, like Options.Dial.
func (w *World) Under(config *rest.Config, dial func(ctx context.Context, address string) (net.Conn, error)) (*World,
	error) {
	opts := w.opts
	opts.Config, opts.Dial = config, dial
	next, err := New(opts)
	if err != nil {
		return nil, err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	next.machines, next.clusters, next.nextHost = w.machines, w.clusters, w.nextHost
	return next, nil
}

func newQueue(name string) workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Millisecond,
		time.Second)
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: name})
}

func (w *World) watch() error {
	jobs := informers.NewSharedInformerFactory(w.client, 0)
	secrets := informers.NewSharedInformerFactoryWithOptions(w.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "type=" + rkev1.SecretTypeMachinePlan
		}))
	w.jobInformer, w.secretInformer = jobs.Batch().V1().Jobs().Informer(), secrets.Core().V1().Secrets().Informer()
	if _, err := w.jobInformer.AddEventHandler(enqueueTo(w.jobs)); err != nil {
		return fmt.Errorf("watch Jobs: %w", err)
	}
	if _, err := w.secretInformer.AddEventHandler(enqueueTo(w.plans)); err != nil {
		return fmt.Errorf("watch plan Secrets: %w", err)
	}
	return nil
}

func enqueueTo(queue workqueue.TypedRateLimitingInterface[types.NamespacedName]) cache.ResourceEventHandler {
	add := func(object any) {
		if accessor, ok := object.(metav1.Object); ok {
			queue.Add(types.NamespacedName{Namespace: accessor.GetNamespace(), Name: accessor.GetName()})
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}
}

// Run runs the World until the context ends, and then stops every cluster's API. It returns when all its goroutines
// have ended.
func (w *World) Run(ctx context.Context) error {
	defer w.stopClusters()
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	if w.opts.Dial != nil {
		var err error
		if w.road, err = newRoad(w.opts.Dial); err != nil {
			return err
		}
		group.Go(func() { w.road.run(ctx) })
	}
	for _, informer := range []cache.SharedIndexInformer{w.jobInformer, w.secretInformer} {
		group.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), w.jobInformer.HasSynced, w.secretInformer.HasSynced) {
		w.jobs.ShutDown()
		w.plans.ShutDown()
		return nil
	}
	for range workers {
		group.Go(func() { w.work(ctx, w.jobs, w.handleJob) })
		group.Go(func() { w.work(ctx, w.plans, w.handlePlan) })
	}
	<-ctx.Done()
	w.jobs.ShutDown()
	w.plans.ShutDown()
	return nil
}

// handler handles one object and returns the time until its next pass. Zero means at the next event.
type handler func(ctx context.Context, key types.NamespacedName) (again time.Duration, err error)

func (w *World) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[types.NamespacedName],
	handle handler) {
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		again, err := handle(ctx, key)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				w.opts.Log("fakeagent: %s: %v", key, err)
			}
			queue.AddRateLimited(key)
		case again > 0:
			queue.Forget(key)
			queue.AddAfter(key, again)
		default:
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// planSecretOf finds the plan Secret of a Cluster API Machine in the cache.
func (w *World) planSecretOf(machine types.NamespacedName) (types.NamespacedName, bool) {
	selector := labels.SelectorFromSet(labels.Set{rkev1.MachineNameLabel: machine.Name})
	for _, object := range w.secretInformer.GetStore().List() {
		if secret, ok := object.(metav1.Object); ok && secret.GetNamespace() == machine.Namespace &&
			selector.Matches(labels.Set(secret.GetLabels())) {
			return types.NamespacedName{Namespace: secret.GetNamespace(), Name: secret.GetName()}, true
		}
	}
	return types.NamespacedName{}, false
}
