package wakeup

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Key names an object to wake. Namespace is empty for kinds without namespaces.
type Key struct {
	Namespace string
	Name      string
}

// Object is any Kubernetes object, the input of resolvers.
type Object interface {
	runtime.Object
	metav1.Object
}

// Target is the controller of a namespaced kind whose objects are woken.
type Target interface {
	EnqueueAfter(namespace, name string, after time.Duration)
}

// ClusterTarget is the controller of a kind without namespaces whose objects are woken.
type ClusterTarget interface {
	EnqueueAfter(name string, after time.Duration)
}

// Source is the controller of a kind whose changes wake others. Every generated controller implements it.
type Source interface {
	Informer() cache.SharedIndexInformer
}

// Resolver returns the objects that a change of obj wakes.
type Resolver[T Object] func(obj T) []Key

// ClusterScoped makes a Target of the controller of a kind without namespaces.
func ClusterScoped(target ClusterTarget) Target { return clusterScoped{target} }

type clusterScoped struct{ target ClusterTarget }

func (c clusterScoped) EnqueueAfter(_, name string, after time.Duration) {
	c.target.EnqueueAfter(name, after)
}

// Enqueuer adapts a Target to the interface of wrangler's watches, without the rate limit.
type Enqueuer struct{ Target }

// Enqueue runs the handlers of the object at once.
func (e Enqueuer) Enqueue(namespace, name string) { e.EnqueueAfter(namespace, name, 0) }

// On wakes the objects that resolve names whenever an object of a source is created, changed or deleted, until ctx
// ends. Call it before the sources start if their first list should wake objects.
func On[T Object](ctx context.Context, target Target, resolve Resolver[T], sources ...Source) error {
	for _, source := range sources {
		if err := OnInformer(ctx, target, resolve, source.Informer()); err != nil {
			return err
		}
	}
	return nil
}

// OnInformer is On for one informer.
func OnInformer[T Object](ctx context.Context, target Target, resolve Resolver[T],
	informer cache.SharedIndexInformer) error {
	wake := func(objects ...any) {
		for _, key := range keysOf(resolve, objects) {
			target.EnqueueAfter(key.Namespace, key.Name, 0)
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { wake(obj) },
		UpdateFunc: func(before, after any) { wake(before, after) },
		DeleteFunc: func(obj any) { wake(ended(obj)) },
	})
	if err != nil {
		return fmt.Errorf("watch for wake-ups: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) })
	return nil
}

// ended returns a deleted object with a deletion timestamp. The last known state may lack it, if the object was deleted
// during a watch gap or had no finalizer. Objects that wait for the deletion are then woken in any case.
func ended(obj any) any {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	last, ok := obj.(Object)
	if !ok || !last.GetDeletionTimestamp().IsZero() {
		return obj
	}
	marked, ok := last.DeepCopyObject().(Object)
	if !ok {
		return obj
	}
	marked.SetDeletionTimestamp(new(metav1.Now()))
	return marked
}

// keysOf resolves every object and returns each key once, in the order of appearance.
func keysOf[T Object](resolve Resolver[T], objects []any) []Key {
	var keys []Key
	seen := map[Key]bool{}
	for _, obj := range objects {
		typed, ok := obj.(T)
		if !ok {
			continue
		}
		for _, key := range resolve(typed) {
			if key.Name != "" && !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	return keys
}
