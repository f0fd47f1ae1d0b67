package hold

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// statusWriter writes statuses. Merge patches of the held kinds may wait.
type statusWriter struct {
	client.SubResourceWriter
	c *Client
}

// Patch implements client.SubResourceWriter.
func (w statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.SubResourcePatchOption) error {
	if kindOf(obj) == "" || patch.Type() != types.MergePatchType || len(opts) > 0 {
		return w.through(ctx, obj, func() error { return w.SubResourceWriter.Patch(ctx, obj, patch, opts...) })
	}
	data, err := patch.Data(obj)
	if err != nil {
		return fmt.Errorf("compute the patch: %w", err)
	}
	var parsed map[string]any
	if err := json.Unmarshal(data, &parsed); err != nil {
		return fmt.Errorf("decode the patch: %w", err)
	}
	if ok, err := w.c.patch(ctx, obj, parsed); ok || err != nil {
		return err
	}
	return w.SubResourceWriter.Patch(ctx, obj, patch, opts...)
}

// Update implements client.SubResourceWriter.
func (w statusWriter) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return w.through(ctx, obj, func() error { return w.SubResourceWriter.Update(ctx, obj, opts...) })
}

// Apply implements client.SubResourceWriter.
func (w statusWriter) Apply(ctx context.Context, config runtime.ApplyConfiguration,
	opts ...client.SubResourceApplyOption) error {
	obj, _ := config.(client.Object)
	return w.through(ctx, obj, func() error { return w.SubResourceWriter.Apply(ctx, config, opts...) })
}

// through writes a status in another way than by a patch that may wait. What is held is earlier, and goes first.
func (w statusWriter) through(ctx context.Context, obj client.Object, write func() error) error {
	if obj != nil && kindOfForm(obj) != "" {
		h, err := w.c.find(ctx, key{kindOfForm(obj), client.ObjectKeyFromObject(obj)})
		if h != nil {
			err = w.c.flush(ctx, h)
			w.c.release(h)
		}
		if err != nil {
			return err
		}
	}
	return write()
}

// patch holds a patch back, or writes it with all that is held of the object. ok is false if the cache does not have
// the object that the caller has.
func (c *Client) patch(ctx context.Context, obj client.Object, parsed map[string]any) (ok bool, err error) {
	k := key{kindOf(obj), client.ObjectKeyFromObject(obj)}
	h := c.take(k)
	defer c.release(h)
	cached, err := c.cached(ctx, h, obj)
	if err != nil || cached == nil {
		return err != nil, err
	}
	owner := c.by == string(k.kind)
	if !owner {
		// The other controller may have read the object before this was held, and would overwrite it. Now its patch
		// conflicts.
		if err := c.flush(ctx, h); err != nil {
			c.again(k)
			return true, err
		}
	}
	before := h.layer.Load().held
	if err := c.hold(h, cached, parsed); err != nil {
		return true, err
	}
	if err := c.plan(ctx, h, owner && cached.GetDeletionTimestamp() == nil); err != nil {
		return true, err
	}
	c.wake(k, cached, h.layer.Load().held.since(before))
	return true, c.show(h, obj, cached)
}

// cached returns the object from the cache, or nil if the cache does not have the same object.
func (c *Client) cached(ctx context.Context, h *held, obj client.Object) (client.Object, error) {
	cached := h.key.kind.empty(h.key.NamespacedName)
	err := c.Client.Get(ctx, h.key.NamespacedName, cached)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the %s: %w", h.key.kind, err)
	case obj.GetUID() != "" && obj.GetUID() != cached.GetUID():
		return nil, nil
	}
	if h.layer.Load().uid != cached.GetUID() {
		h.layer.Store(&layer{uid: cached.GetUID()}) // what was held belongs to a deleted object
	}
	return cached, nil
}

// plan decides when what is held of the object is written.
func (c *Client) plan(ctx context.Context, h *held, may bool) error {
	change := h.layer.Load().held
	switch {
	case change.isEmpty():
		stop(h.due)
		h.due, h.urgent = nil, false
	case c.closed.Load() || !may:
		return c.flush(ctx, h)
	default:
		h.urgent = urgent(h.key.kind, change) != ""
		if h.due == nil {
			//nolint:contextcheck // the timer outlives the patch
			h.due = time.AfterFunc(c.window(), func() { c.expired(h.key) })
		}
	}
	return nil
}

// wake wakes the controllers that the event of a change would wake.
func (c *Client) wake(k key, cached client.Object, held change) {
	for _, controller := range wakes(k.kind, held) {
		name := k.NamespacedName
		if controller != k.kind {
			if name.Name = cached.GetLabels()[clusterv1.MachineDeploymentNameLabel]; name.Name == "" {
				continue
			}
		}
		c.opts.Wake(string(controller), reconcile.Request{NamespacedName: name})
	}
}

// hold puts a patch on what is held. The held change is always the difference to the newest status that is known. A
// patch for another version conflicts, as in the API server.
func (c *Client) hold(h *held, cached client.Object, parsed map[string]any) error {
	current, err := readStatus(cached)
	if err != nil {
		return err
	}
	l := h.layer.Load()
	base := l.newest(version{cached.GetResourceVersion(), current})
	metadata, _ := parsed["metadata"].(map[string]any)
	if wanted, _ := metadata["resourceVersion"].(string); wanted != "" && wanted != base.resourceVersion {
		return apierrors.NewConflict(resourceOf(h.key.kind), h.key.Name,
			fmt.Errorf("the patch is for version %s, and the newest version is %s", wanted, base.resourceVersion))
	}
	patch, ok := parsed["status"]
	if !ok {
		return nil
	}
	wanted := status{} // null removes the status
	if patch != nil {
		if wanted, err = merge(l.held.apply(base.status), patch); err != nil {
			return err
		}
	}
	next := &layer{uid: l.uid, held: difference(base.status, wanted)}
	if base.resourceVersion != cached.GetResourceVersion() {
		next.written = l.written
	}
	h.layer.Store(next)
	return nil
}

func resourceOf(k kind) schema.GroupResource {
	return schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: string(k) + "s"}
}

// show gives the caller the object as reads show it.
func (c *Client) show(h *held, obj, cached client.Object) error {
	if err := h.layer.Load().over(cached); err != nil {
		return err
	}
	obj.SetResourceVersion(cached.GetResourceVersion())
	copyStatus(obj, cached)
	return nil
}

// window returns how long a status may wait now.
func (c *Client) window() time.Duration {
	c.mu.RLock()
	n := len(c.objects)
	c.mu.RUnlock()
	return min(c.opts.Window+c.opts.Window*time.Duration(n)/crowd, c.opts.MaxWindow)
}
