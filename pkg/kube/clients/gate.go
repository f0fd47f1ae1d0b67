package clients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lassocontroller "github.com/rancher/lasso/pkg/controller"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// gate guards every handler. Closing it lets running handlers finish, prevents new ones, and then ends the context of
// the registrations.
type gate struct {
	ctx    context.Context // the context of handlers, which outlives that of workers
	cancel context.CancelFunc
	// work ends earlier, together with the workers.
	work    context.Context // the context for waits in handlers
	endWork context.CancelFunc

	observe func(handler string, took time.Duration, err error)

	mu      sync.Mutex
	running int
	closed  bool
	idle    chan struct{} // closed once the gate is closed and no handler runs
	once    sync.Once
}

func newGate(observe func(string, time.Duration, error)) *gate {
	if observe == nil {
		observe = func(string, time.Duration, error) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	work, endWork := context.WithCancel(ctx)
	return &gate{ctx: ctx, cancel: cancel, work: work, endWork: endWork, observe: observe, idle: make(chan struct{})}
}

// close returns when no handler runs any more.
func (g *gate) close() {
	g.endWork()
	g.mu.Lock()
	g.closed = true
	g.settle()
	g.mu.Unlock()
	<-g.idle
	g.cancel()
}

// settle closes idle if the gate is closed and no handler runs. The caller holds the lock.
func (g *gate) settle() {
	if g.closed && g.running == 0 {
		g.once.Do(func() { close(g.idle) })
	}
}

// enter reports whether a handler may run. If so, the caller must call leave afterwards.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.settle()
}

// run calls a handler through the gate. A panic becomes an error.
func (g *gate) run(name, key string, handler func() (runtime.Object, error)) (obj runtime.Object, err error) {
	if !g.enter() {
		return nil, nil
	}
	defer g.leave()
	began := time.Now()
	defer func() { g.observe(name, time.Since(began), unlessIgnored(err)) }()
	defer func() {
		if r := recover(); r != nil {
			logrus.WithFields(logrus.Fields{"controller": name, "key": key, "stack": stack()}).Errorf(
				"Handler panicked: %v", r)
			obj, err = nil, fmt.Errorf("handler %s panicked", name)
		}
	}()
	return handler()
}

// unlessIgnored returns the error of a handler, or nil for the framework's ErrIgnore, which counts as success.
func unlessIgnored(err error) error {
	if errors.Is(err, lassocontroller.ErrIgnore) {
		return nil
	}
	return err
}

// gatedFactory puts the gate in front of the handlers of every controller, and reports used kinds to the tracker.
type gatedFactory struct {
	lassocontroller.SharedControllerFactory
	gate    *gate
	tracker *tracker

	mu     sync.Mutex
	chains map[schema.GroupVersionKind]*chain
	// begin starts the workers of a kind; nil until Clients has started.
	begin func(gvk schema.GroupVersionKind, w *workers)
}

// start starts the workers of all kinds with handlers, now or later.
func (f *gatedFactory) start(begin func(gvk schema.GroupVersionKind, w *workers)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin = begin
	for gvk, list := range f.chains {
		begin(gvk, list.workers)
	}
}

// chainOf returns the handlers of a kind, and whether the framework knows the chain already.
func (f *gatedFactory) chainOf(gvk schema.GroupVersionKind, informer func() cache.SharedIndexInformer) (list *chain,
	known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.chains == nil {
		f.chains = map[schema.GroupVersionKind]*chain{}
	}
	if list, known = f.chains[gvk]; !known {
		list = newChain(f.gate, gvk.String(), informer)
		f.chains[gvk] = list
		if f.begin != nil {
			f.begin(gvk, list.workers)
		}
	}
	return list, known
}

func (f *gatedFactory) ForObject(obj runtime.Object) (lassocontroller.SharedController, error) {
	gvk, err := f.SharedCacheFactory().SharedClientFactory().GVKForObject(obj)
	if err != nil {
		return nil, err
	}
	return f.ForKind(gvk)
}

func (f *gatedFactory) ForKind(gvk schema.GroupVersionKind) (lassocontroller.SharedController, error) {
	c, err := f.SharedControllerFactory.ForKind(gvk)
	if err != nil {
		return nil, err
	}
	return &gatedController{c, f, gvk}, nil
}

func (f *gatedFactory) ForResource(gvr schema.GroupVersionResource, namespaced bool) lassocontroller.SharedController {
	return f.ForResourceKind(gvr, "", namespaced)
}

func (f *gatedFactory) ForResourceKind(gvr schema.GroupVersionResource, kind string,
	namespaced bool) lassocontroller.SharedController {
	c := f.SharedControllerFactory.ForResourceKind(gvr, kind, namespaced)
	return &gatedController{c, f, gvr.GroupVersion().WithKind(cmp.Or(kind, gvr.Resource))}
}

type gatedController struct {
	lassocontroller.SharedController
	factory *gatedFactory
	gvk     schema.GroupVersionKind
}

func (c *gatedController) Informer() cache.SharedIndexInformer {
	informer := indexed{c.SharedController.Informer()}
	c.factory.tracker.add(c.gvk, informer)
	return informer
}

func (c *gatedController) RegisterHandler(ctx context.Context, name string,
	handler lassocontroller.SharedControllerHandler) {
	_ = c.Informer()
	list, known := c.factory.chainOf(c.gvk, c.SharedController.Informer)
	list.add(ctx, name, handler)
	if !known {
		c.SharedController.RegisterHandler(c.factory.gate.ctx, "drover", list.workers) //nolint:contextcheck // handlers end with the gate, after the last one has returned
		return
	}
	// A handler that joins a running controller gets all existing objects, as in the framework.
	for _, key := range c.SharedController.Informer().GetStore().ListKeys() {
		list.workers.add(key)
	}
}
