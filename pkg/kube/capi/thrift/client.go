package thrift

import (
	"context"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client is a client that drops applies that change nothing. Thrift.Client creates it.
type Client struct {
	client.Client
	thrift *Thrift

	mu sync.Mutex
	// sent are the applies that the cache may not show yet: the version of the object after the last one, or "" if it
	// has failed, because the API server may have done it.
	sent map[target]string
	// kept is the number of those after the last sweep.
	kept int
}

// Client returns the reconcilers' client.
func (t *Thrift) Client(inner client.Client) *Client {
	return &Client{Client: inner, thrift: t, sent: map[target]string{}}
}

// target is an object.
type target struct {
	gvk  schema.GroupVersionKind
	name types.NamespacedName
}

// applied is an apply configuration that is an unstructured object, as Cluster API's are.
type applied interface {
	client.Object
	runtime.Unstructured
}

// Apply implements client.Client. A dropped apply leaves in configuration what the API server would have answered: the
// object as it is.
func (c *Client) Apply(ctx context.Context, configuration runtime.ApplyConfiguration,
	opts ...client.ApplyOption) error {
	object, ok := configuration.(applied)
	given := &client.ApplyOptions{}
	given.ApplyOptions(opts)
	if !ok || !plain(object, given) {
		return c.Client.Apply(ctx, configuration, opts...)
	}
	to := target{object.GetObjectKind().GroupVersionKind(), client.ObjectKeyFromObject(object)}
	if c.elide(object, to, given.FieldManager) {
		return nil
	}
	err := c.Client.Apply(ctx, configuration, opts...)
	if err != nil {
		c.remember(to, "")
		return err
	}
	c.remember(to, object.GetResourceVersion())
	return nil
}

// plain reports whether an apply is one that a repetition would not change: by a manager that takes over fields, of a
// named object, without options that this package does not know.
func plain(object client.Object, given *client.ApplyOptions) bool {
	return len(given.DryRun) == 0 && given.Force != nil && *given.Force && given.FieldManager != "" &&
		object.GetName() != "" && object.GetResourceVersion() == ""
}

// elide reports whether the apply would change nothing. The object then becomes what the cache has.
func (c *Client) elide(object applied, to target, manager string) bool {
	cached := c.thrift.caches.find(to.gvk, to.name)
	if cached == nil || (object.GetUID() != "" && object.GetUID() != cached.GetUID()) || c.behind(cached, to) {
		return false
	}
	generic, shared := cached.(*unstructured.Unstructured)
	if !shared {
		generic = &unstructured.Unstructured{}
		if err := c.thrift.scheme.Convert(cached, generic, nil); err != nil {
			return false
		}
		generic.SetGroupVersionKind(to.gvk)
	}
	if !unchanged(object.UnstructuredContent(), generic.Object, cached.GetManagedFields(), manager) {
		return false
	}
	if shared {
		generic = generic.DeepCopy()
	}
	object.SetUnstructuredContent(generic.Object)
	return true
}

// behind reports whether the cached object may be older than the last apply that was sent.
func (c *Client) behind(cached client.Object, to target) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	version, ok := c.sent[to]
	if ok && asNew(cached.GetResourceVersion(), version) {
		delete(c.sent, to)
		return false
	}
	return ok
}

// asNew reports whether a version is as new as another one.
func asNew(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order >= 0
}

func (c *Client) remember(to target, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.sent[to]; version == "" || !asNew(known, version) {
		c.sent[to] = version
	}
	c.sweep()
}

// sweep forgets what the caches show, and objects that they do not have, when the number of memories has doubled.
func (c *Client) sweep() {
	if len(c.sent) < max(leastKept, 2*c.kept) {
		return
	}
	maps.DeleteFunc(c.sent, func(to target, version string) bool {
		if cached := c.thrift.caches.find(to.gvk, to.name); cached != nil {
			return asNew(cached.GetResourceVersion(), version)
		}
		return c.thrift.caches.show(to.gvk, version)
	})
	c.kept = len(c.sent)
}
