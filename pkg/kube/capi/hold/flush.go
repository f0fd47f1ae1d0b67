package hold

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// writeTimeout is how long a flush may take that no caller waits for.
	writeTimeout = 30 * time.Second
	// tries is how often a flush that conflicts is tried.
	tries = 5
	// pause is the time between these, and doubles.
	pause = 20 * time.Millisecond
	// settle is how often a cache is asked whether it has a written version. It doubles up to settleMax.
	settle    = 100 * time.Millisecond
	settleMax = 5 * time.Second
)

// Finished writes what a reconcile has left, if something waits for it. The queue of the controller calls it when the
// reconcile of the request has ended.
func (c *Client) Finished(controller string, request reconcile.Request) {
	h, err := c.find(c.life, key{kind(controller), request.NamespacedName})
	if h == nil || err != nil {
		return
	}
	defer c.release(h)
	if h.urgent {
		c.flushAlone(h)
	}
}

// Flush writes everything that is held, and holds nothing afterwards. Call it once, when the controllers have ended.
// Their caches need not run. Flush returns when ctx ends, also during writes that have begun before it. What is not
// written by then is lost.
func (c *Client) Flush(ctx context.Context) error {
	defer c.end()
	c.closed.Store(true)
	c.mu.RLock()
	keys := slices.Collect(maps.Keys(c.objects))
	c.mu.RUnlock()
	var (
		group sync.WaitGroup
		slots = make(chan struct{}, flushes) // not the store's: its flushes may hang
		mu    sync.Mutex
		lost  int
		first error
	)
	for _, k := range keys {
		group.Go(func() {
			if err := c.flushLast(ctx, k, slots); err != nil {
				mu.Lock()
				defer mu.Unlock()
				lost, first = lost+1, cmp.Or(first, err)
			}
		})
	}
	group.Wait()
	if lost > 0 {
		return fmt.Errorf("write what is held of %d objects: %w", lost, first)
	}
	return nil
}

// flushLast writes what is held of an object, and forgets it.
func (c *Client) flushLast(ctx context.Context, k key, slots chan struct{}) error {
	h, err := c.find(ctx, k)
	if h == nil || err != nil {
		return err
	}
	defer func() {
		h.layer.Store(&layer{})
		c.release(h)
	}()
	if err := enter(ctx, slots); err != nil {
		return fmt.Errorf("wait for other writes: %w", err)
	}
	defer func() { <-slots }()
	return client.IgnoreNotFound(c.flush(ctx, h))
}

// expired flushes an object whose window has ended.
func (c *Client) expired(k key) {
	if enter(c.life, c.slots) != nil {
		return
	}
	defer func() { <-c.slots }()
	h, err := c.find(c.life, k)
	if h == nil || err != nil {
		return
	}
	defer c.release(h)
	if !c.closed.Load() {
		c.flushAlone(h)
	}
}

// flushAlone writes what is held of an object, without a caller. After a failure, the object is reconciled again.
func (c *Client) flushAlone(h *held) {
	ctx, cancel := context.WithTimeout(c.life, writeTimeout)
	defer cancel()
	err := c.flush(ctx, h)
	if err == nil || apierrors.IsNotFound(err) {
		return
	}
	c.opts.Log.WithFields(map[string]any{"kind": h.key.kind, "namespace": h.key.Namespace, "name": h.key.Name}).
		WithError(err).Warn("A held status is not written, and computed again")
	c.again(h.key)
}

func (c *Client) again(k key) {
	c.opts.Requeue(string(k.kind), reconcile.Request{NamespacedName: k.NamespacedName})
}

// flush writes what is held of an object in one patch. The caller has the lock. If that fails, nothing is held anymore.
func (c *Client) flush(ctx context.Context, h *held) error {
	stop(h.due)
	h.due, h.urgent = nil, false
	if h.layer.Load().held.isEmpty() {
		return nil
	}
	err := c.write(ctx, h, c.closed.Load())
	for try, wait := 1, pause; apierrors.IsConflict(err) && try < tries; try, wait = try+1, wait*2 {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		err = c.write(ctx, h, true)
	}
	if err != nil {
		l := h.layer.Load()
		h.layer.Store(&layer{uid: l.uid, written: l.written})
		return fmt.Errorf("write the status of %s %s: %w", h.key.kind, h.key.NamespacedName, err)
	}
	return nil
}

// write writes the held change on the newest version.
func (c *Client) write(ctx context.Context, h *held, live bool) error {
	l := h.layer.Load()
	base, err := c.base(ctx, h, live)
	if err != nil {
		return err
	}
	body, err := patchTo(base, l.held.apply(base.status))
	if err != nil {
		return err
	}
	if body == nil {
		h.layer.Store(&layer{uid: l.uid, written: l.written})
		return nil
	}
	answer := h.key.kind.empty(h.key.NamespacedName)
	if err := c.Client.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, body)); err != nil {
		return err
	}
	stored, err := readStatus(answer)
	if err != nil {
		return err
	}
	h.layer.Store(&layer{uid: l.uid, written: &version{answer.GetResourceVersion(), stored}})
	stop(h.check)
	if !c.closed.Load() {
		//nolint:contextcheck // the look outlives the write
		h.check = time.AfterFunc(settle, func() { c.settled(h.key, settle) })
	}
	return nil
}

// base returns the newest version of the object.
func (c *Client) base(ctx context.Context, h *held, live bool) (version, error) {
	obj, read := h.key.kind.empty(h.key.NamespacedName), c.Client.Get
	if live {
		read = c.getLive
	}
	if err := read(ctx, h.key.NamespacedName, obj); err != nil {
		return version{}, err
	}
	l := h.layer.Load()
	if obj.GetUID() != l.uid {
		return version{}, apierrors.NewNotFound(resourceOf(h.key.kind), h.key.Name) // another one has its name
	}
	current, err := readStatus(obj)
	if err != nil {
		return version{}, err
	}
	return l.newest(version{obj.GetResourceVersion(), current}), nil
}

// getLive reads an object from the API server. It lists that one object, because the core has no other permission.
func (c *Client) getLive(ctx context.Context, name types.NamespacedName, into client.Object,
	_ ...client.GetOption) error {
	list := kindOf(into).list()
	if err := c.opts.Live.List(ctx, list, client.InNamespace(name.Namespace),
		client.MatchingFields{"metadata.name": name.Name}); err != nil {
		return err
	}
	found, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("read the list of one %s: %w", kindOf(into), err)
	}
	if len(found) == 0 {
		return apierrors.NewNotFound(resourceOf(kindOf(into)), name.Name)
	}
	obj := found[0].(client.Object)
	into.SetUID(obj.GetUID())
	into.SetResourceVersion(obj.GetResourceVersion())
	copyStatus(into, obj)
	return nil
}

// patchTo returns the patch from a version to a status, or nil if they are equal. It is for that version only.
func patchTo(base version, wanted status) ([]byte, error) {
	before, err := json.Marshal(map[string]any{"status": base.status})
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	after, err := json.Marshal(map[string]any{"status": wanted})
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	body, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, fmt.Errorf("compute the patch: %w", err)
	}
	patch := map[string]any{}
	if err := json.Unmarshal(body, &patch); err != nil || len(patch) == 0 {
		return nil, err
	}
	patch["metadata"] = map[string]any{"resourceVersion": base.resourceVersion}
	return json.Marshal(patch)
}

// settled forgets the written status of an object when the cache has it.
func (c *Client) settled(k key, after time.Duration) {
	h, err := c.find(c.life, k)
	if h == nil || err != nil {
		return
	}
	defer c.release(h)
	l := h.layer.Load()
	if l.written == nil || c.closed.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(c.life, writeTimeout)
	defer cancel()
	obj := k.kind.empty(k.NamespacedName)
	switch err := c.Client.Get(ctx, k.NamespacedName, obj); {
	case apierrors.IsNotFound(err) || err == nil && obj.GetUID() != l.uid:
		h.layer.Store(&layer{})
	case err == nil && !isOlder(obj.GetResourceVersion(), l.written.resourceVersion):
		h.layer.Store(&layer{uid: l.uid, held: l.held})
	default:
		after = min(after*2, settleMax)
		h.check = time.AfterFunc(after, func() { c.settled(k, after) })
	}
}
