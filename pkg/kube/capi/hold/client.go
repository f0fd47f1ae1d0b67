package hold

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	defaultWindow    = 3 * time.Second
	defaultMaxWindow = 10 * time.Second
	// crowd is the number of held objects that doubles the window.
	crowd = 100
	// flushes is how many objects are flushed at the same time.
	flushes = 10
)

// Options configure a client.
type Options struct {
	// Window is how long a status may wait; 3 seconds when it is zero. It grows with the number of held objects, up to
	// MaxWindow; 10 seconds when that is zero.
	Window, MaxWindow time.Duration
	// Live lists the newest version of an object after a conflict, and at the end. The client's own reads may be
	// cached.
	Live client.Reader
	// Wake reconciles an object now, because of a change that waits. The event of the write would do that later.
	Wake func(controller string, request reconcile.Request)
	// Requeue reconciles an object again whose held status is lost, because it could not be written.
	Requeue func(controller string, request reconcile.Request)
	// Log receives errors; the standard logger when it is nil.
	Log logrus.FieldLogger
}

// Client holds statuses back. Its reads show them.
type Client struct {
	client.Client
	opts Options
	// by is the controller that uses the client, or empty.
	by string
	*store
}

// store is what the clients of all controllers share.
type store struct {
	mu      sync.RWMutex
	objects map[key]*held
	closed  atomic.Bool
	slots   chan struct{}
	// life ends when Flush returns. Writes that no caller waits for end with it.
	life context.Context
	end  context.CancelFunc
}

var _ client.Client = (*Client)(nil)

// New returns a client over inner. Its urgent patches are written at once, because it does not know which controller
// uses it; For does.
func New(inner client.Client, opts Options) *Client {
	if opts.Window == 0 {
		opts.Window = defaultWindow
	}
	if opts.MaxWindow == 0 {
		opts.MaxWindow = defaultMaxWindow
	}
	if opts.Live == nil {
		opts.Live = inner
	}
	if opts.Requeue == nil {
		opts.Requeue = func(string, reconcile.Request) {}
	}
	if opts.Wake == nil {
		opts.Wake = func(string, reconcile.Request) {}
	}
	if opts.Log == nil {
		opts.Log = logrus.StandardLogger()
	}
	life, end := context.WithCancel(context.Background())
	return &Client{Client: inner, opts: opts,
		store: &store{objects: map[key]*held{}, slots: make(chan struct{}, flushes), life: life, end: end}}
}

// For returns the client for a controller. Its urgent patches of the object that it reconciles are one write, at the
// end of the reconcile. Finished must be called then.
func (c *Client) For(controller string) *Client {
	out := *c
	out.by = controller
	return &out
}

// Get implements client.Client.
func (c *Client) Get(ctx context.Context, name client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, name, obj, opts...); err != nil {
		return err
	}
	return c.over(obj)
}

// List implements client.Client.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	if c.isEmpty() || !holds(list) {
		return nil
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok {
			return c.over(obj)
		}
		return nil
	})
}

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.answered(obj, c.Client.Create(ctx, obj, opts...))
}

// Update implements client.Client.
func (c *Client) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.answered(obj, c.Client.Update(ctx, obj, opts...))
}

// Patch implements client.Client.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.answered(obj, c.Client.Patch(ctx, obj, patch, opts...))
}

// Apply implements client.Client.
func (c *Client) Apply(ctx context.Context, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	obj, _ := config.(client.Object)
	return c.answered(obj, c.Client.Apply(ctx, config, opts...))
}

// answered puts what is held on the answer to a write: the caller computes its next patch from it.
func (c *Client) answered(obj client.Object, err error) error {
	if err != nil || obj == nil {
		return err
	}
	return c.over(obj)
}

// over puts what is held on an object.
func (c *Client) over(obj client.Object) error {
	k := kindOfForm(obj)
	if k == "" {
		return nil
	}
	c.mu.RLock()
	h := c.objects[key{k, client.ObjectKeyFromObject(obj)}]
	c.mu.RUnlock()
	if h == nil {
		return nil
	}
	return h.layer.Load().over(obj)
}

// Status implements client.Client.
func (c *Client) Status() client.SubResourceWriter { return statusWriter{c.Client.Status(), c} }

// SubResource implements client.Client.
func (c *Client) SubResource(name string) client.SubResourceClient {
	inner := c.Client.SubResource(name)
	if name != "status" {
		return inner
	}
	return struct {
		client.SubResourceReader
		client.SubResourceWriter
	}{inner, statusWriter{inner, c}}
}

func (s *store) isEmpty() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.objects) == 0
}

// find returns the object, locked, or nil if nothing is known of it. It fails if ctx ends before the lock is free.
func (s *store) find(ctx context.Context, k key) (*held, error) {
	s.mu.RLock()
	h := s.objects[k]
	s.mu.RUnlock()
	if h == nil {
		return nil, nil
	}
	if err := enter(ctx, h.lock); err != nil {
		return nil, fmt.Errorf("wait for another write of the status of %s %s: %w", k.kind, k.NamespacedName, err)
	}
	if h.gone {
		<-h.lock
		return nil, nil
	}
	return h, nil
}

// enter takes a place in a channel that limits how many do something at once.
func enter(ctx context.Context, places chan<- struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take returns the object, locked. It adds it if it is absent.
func (s *store) take(k key) *held {
	for {
		s.mu.Lock()
		h := s.objects[k]
		if h == nil {
			h = &held{key: k, lock: make(chan struct{}, 1)}
			h.layer.Store(&layer{})
			s.objects[k] = h
		}
		s.mu.Unlock()
		h.lock <- struct{}{}
		if !h.gone {
			return h
		}
		<-h.lock
	}
}

// release unlocks an object, and forgets it if it has nothing.
func (s *store) release(h *held) {
	if h.layer.Load().isEmpty() {
		h.gone = true
		stop(h.due)
		stop(h.check)
		s.mu.Lock()
		delete(s.objects, h.key)
		s.mu.Unlock()
	}
	<-h.lock
}

func stop(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}
