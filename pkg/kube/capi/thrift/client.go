package thrift

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	mu      sync.Mutex
	applied map[target]memory
	// kept is the number of memories after the last sweep.
	kept int
}

// Client returns the reconcilers' client.
func (t *Thrift) Client(inner client.Client) *Client {
	return &Client{Client: inner, thrift: t, applied: map[target]memory{}}
}

// target is an object and the manager that applies it.
type target struct {
	gvk     schema.GroupVersionKind
	name    types.NamespacedName
	manager string
}

// memory is how an apply left its object.
type memory struct {
	wish, fields sum
	uid          types.UID
	version      string
}

type sum = [sha256.Size]byte

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
	to := target{object.GetObjectKind().GroupVersionKind(), client.ObjectKeyFromObject(object), given.FieldManager}
	wish, err := wishOf(object)
	if err != nil {
		return err
	}
	if c.elide(object, to, wish) {
		return nil
	}
	if err := c.Client.Apply(ctx, configuration, opts...); err != nil {
		c.forget(to)
		return err
	}
	c.remember(to, object, wish)
	return nil
}

// plain reports whether an apply is one that a repetition would not change: by a manager that takes over fields, of a
// named object, without options that this package does not know.
func plain(object client.Object, given *client.ApplyOptions) bool {
	return len(given.DryRun) == 0 && given.Force != nil && *given.Force && given.FieldManager != "" &&
		object.GetName() != "" && object.GetResourceVersion() == ""
}

// elide reports whether the apply would change nothing. The object then becomes what the cache has.
func (c *Client) elide(object applied, to target, wish sum) bool {
	c.mu.Lock()
	last, ok := c.applied[to]
	c.mu.Unlock()
	if !ok || last.wish != wish || (object.GetUID() != "" && object.GetUID() != last.uid) {
		return false
	}
	cached := c.thrift.caches.find(to.gvk, to.name)
	if cached == nil || cached.GetUID() != last.uid || !asNew(cached.GetResourceVersion(), last.version) {
		return false
	}
	fields, ok := fieldsOf(cached.GetManagedFields(), to.manager)
	if !ok || fields != last.fields {
		return false
	}
	content := &unstructured.Unstructured{}
	if generic, ok := cached.(*unstructured.Unstructured); ok {
		content = generic.DeepCopy()
	} else if err := c.thrift.scheme.Convert(cached, content, nil); err != nil {
		return false
	}
	content.SetGroupVersionKind(to.gvk)
	object.SetUnstructuredContent(content.Object)
	return true
}

// asNew reports whether a version is as new as another one.
func asNew(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order >= 0
}

func (c *Client) forget(to target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.applied, to)
}

func (c *Client) remember(to target, result client.Object, wish sum) {
	fields, ok := fieldsOf(result.GetManagedFields(), to.manager)
	if !ok || result.GetUID() == "" {
		c.forget(to)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied[to] = memory{wish: wish, fields: fields, uid: result.GetUID(), version: result.GetResourceVersion()}
	c.sweep()
}

// sweep forgets objects that are not in the cache, when the number of memories has doubled. So there are at most twice
// as many as objects. A new object that the cache does not show yet is applied once more.
func (c *Client) sweep() {
	if len(c.applied) < max(leastKept, 2*c.kept) {
		return
	}
	maps.DeleteFunc(c.applied, func(to target, last memory) bool {
		cached := c.thrift.caches.find(to.gvk, to.name)
		return cached == nil || cached.GetUID() != last.uid
	})
	c.kept = len(c.applied)
}

// wishOf sums up what is applied. The UID is not part of it: only the first apply of an object has none.
func wishOf(object runtime.Unstructured) (sum, error) {
	content := maps.Clone(object.UnstructuredContent())
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "uid")
		content["metadata"] = metadata
	}
	data, err := json.Marshal(content)
	if err != nil {
		return sum{}, fmt.Errorf("encode what is applied: %w", err)
	}
	return sha256.Sum256(data), nil
}

// fieldsOf sums up the fields that a manager has applied. It reports false if there is no entry of the manager.
func fieldsOf(entries []metav1.ManagedFieldsEntry, manager string) (sum, bool) {
	for _, entry := range entries {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply ||
			entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		// The API server's order of keys differs from the order after a conversion.
		var fields map[string]any
		if err := json.Unmarshal(entry.FieldsV1.Raw, &fields); err != nil {
			return sum{}, false
		}
		data, err := json.Marshal([]any{entry.APIVersion, fields})
		if err != nil {
			return sum{}, false
		}
		return sha256.Sum256(data), true
	}
	return sum{}, false
}
