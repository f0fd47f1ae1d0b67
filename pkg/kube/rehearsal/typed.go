package rehearsal

import (
	"fmt"
	"slices"
	"time"

	"github.com/rancher/wrangler/v3/pkg/generic"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/pkg/kube/applyset"
)

// kind is the client, the controller and the cache of a kind on a stage. What it does not have of the generated one, such as watching, belongs to that.
type kind[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.ControllerInterface[T, L]
	shelf[T]
}

// Kind puts a kind on a stage. The generated controller gives the kind; nothing is asked of it.
func Kind[T generic.RuntimeMetaObject, L runtime.Object](s *Stage, of generic.ControllerInterface[T, L]) generic.ControllerInterface[T, L] {
	return kind[T, L]{of, newShelf[T](s, of.GroupVersionKind())}
}

// Informer is one that shows the stage and tells nobody of anything.
func (k kind[T, L]) Informer() cache.SharedIndexInformer { return applyset.NewStill(cache.Indexers{}) }

// Cache is what the stage shows.
func (k kind[T, L]) Cache() generic.CacheInterface[T] { return k.shelf }

// Create and the others do on the stage what they do live.
func (k kind[T, L]) Create(object T) (T, error) { return k.create(object) }

// Update writes all but the status.
func (k kind[T, L]) Update(object T) (T, error) { return k.update(object) }

// UpdateStatus writes the status.
func (k kind[T, L]) UpdateStatus(object T) (T, error) { return k.update(object, statusField) }

// Patch changes a part.
func (k kind[T, L]) Patch(namespace, name string, pt types.PatchType, data []byte, subresources ...string) (T, error) {
	return k.patch(namespace, name, pt, data, subresources...)
}

// Delete takes an object away.
func (k kind[T, L]) Delete(namespace, name string, opts *metav1.DeleteOptions) error {
	return k.stage.delete(id{k.gvk, namespace, name}, opts)
}

// Get is what the cache shows, too.
func (k kind[T, L]) Get(namespace, name string, _ metav1.GetOptions) (T, error) {
	return k.shelf.Get(namespace, name)
}

// List asks the API server itself: it is for what nobody here has made.
func (k kind[T, L]) List(namespace string, opts metav1.ListOptions) (L, error) {
	found, err := k.ControllerInterface.List(namespace, opts)
	if err != nil {
		return found, k.stage.note(err, "list", collection{k.gvk, namespace})
	}
	return found, nil
}

// Enqueue and EnqueueAfter do nothing: whoever has the stage asks again.
func (k kind[T, L]) Enqueue(string, string) {}

// EnqueueAfter does nothing.
func (k kind[T, L]) EnqueueAfter(string, string, time.Duration) {}

// global is kind for kinds without a namespace.
type global[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.NonNamespacedControllerInterface[T, L]
	shelf[T]
}

// Global puts a kind without a namespace on a stage.
func Global[T generic.RuntimeMetaObject, L runtime.Object](s *Stage, of generic.NonNamespacedControllerInterface[T, L]) generic.NonNamespacedControllerInterface[T, L] {
	return global[T, L]{of, newShelf[T](s, of.GroupVersionKind())}
}

// Informer is one that shows nothing.
func (g global[T, L]) Informer() cache.SharedIndexInformer {
	return applyset.NewStill(cache.Indexers{})
}

// Cache is what the stage shows.
func (g global[T, L]) Cache() generic.NonNamespacedCacheInterface[T] { return globalCache[T]{g.shelf} }

// Create and the others do on the stage what they do live.
func (g global[T, L]) Create(object T) (T, error) { return g.create(object) }

// Update writes all but the status.
func (g global[T, L]) Update(object T) (T, error) { return g.update(object) }

// UpdateStatus writes the status.
func (g global[T, L]) UpdateStatus(object T) (T, error) { return g.update(object, statusField) }

// Patch changes a part.
func (g global[T, L]) Patch(name string, pt types.PatchType, data []byte, subresources ...string) (T, error) {
	return g.patch("", name, pt, data, subresources...)
}

// Delete takes an object away.
func (g global[T, L]) Delete(name string, opts *metav1.DeleteOptions) error {
	return g.stage.delete(id{g.gvk, "", name}, opts)
}

// Get is what the cache shows, too.
func (g global[T, L]) Get(name string, _ metav1.GetOptions) (T, error) { return g.shelf.Get("", name) }

// List asks the API server itself.
func (g global[T, L]) List(opts metav1.ListOptions) (L, error) {
	found, err := g.NonNamespacedControllerInterface.List(opts)
	if err != nil {
		return found, g.stage.note(err, "list", collection{gvk: g.gvk})
	}
	return found, nil
}

// Enqueue and EnqueueAfter do nothing.
func (g global[T, L]) Enqueue(string) {}

// EnqueueAfter does nothing.
func (g global[T, L]) EnqueueAfter(string, time.Duration) {}

type globalCache[T generic.RuntimeMetaObject] struct{ shelf[T] }

// Get implements generic.NonNamespacedCacheInterface.
func (c globalCache[T]) Get(name string) (T, error) { return c.shelf.Get("", name) }

// List implements generic.NonNamespacedCacheInterface.
func (c globalCache[T]) List(selector labels.Selector) ([]T, error) {
	return c.shelf.List("", selector)
}

// shelf has the objects of a kind on a stage, with their type.
type shelf[T generic.RuntimeMetaObject] struct {
	stage    *Stage
	gvk      schema.GroupVersionKind
	indexers map[string]generic.Indexer[T]
}

func newShelf[T generic.RuntimeMetaObject](s *Stage, gvk schema.GroupVersionKind) shelf[T] {
	return shelf[T]{s, gvk, map[string]generic.Indexer[T]{}}
}

func typed[T generic.RuntimeMetaObject](object *unstructured.Unstructured) (T, error) {
	var out T
	text, err := object.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return out, fmt.Errorf("decode %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return out, nil
}

func untyped(object runtime.Object) (*unstructured.Unstructured, error) {
	content := map[string]any{}
	text, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(text, &content)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", object, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// answer gives what the stage answered its type.
func answer[T generic.RuntimeMetaObject](object *unstructured.Unstructured, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return typed[T](object)
}

func (s shelf[T]) create(object T) (T, error) {
	sent, err := untyped(object)
	if err != nil {
		return object, err
	}
	return answer[T](s.stage.create(s.gvk, sent))
}

func (s shelf[T]) update(object T, subresources ...string) (T, error) {
	sent, err := untyped(object)
	if err != nil {
		return object, err
	}
	return answer[T](s.stage.update(s.gvk, sent, subresources...))
}

func (s shelf[T]) patch(namespace, name string, pt types.PatchType, data []byte, subresources ...string) (T, error) {
	return answer[T](s.stage.patch(id{s.gvk, namespace, name}, pt, data, subresources...))
}

// Get implements generic.CacheInterface.
func (s shelf[T]) Get(namespace, name string) (T, error) {
	object, err := s.stage.look(id{s.gvk, namespace, name})
	if err != nil {
		var none T
		return none, err
	}
	return s.decoded(object)
}

// decoded gives an object of the stage its type, once.
func (s shelf[T]) decoded(object *unstructured.Unstructured) (T, error) {
	if known, ok := s.stage.decoded[object].(T); ok {
		return known, nil
	}
	one, err := typed[T](object)
	if err == nil {
		s.stage.decoded[object] = one
	}
	return one, err
}

// List implements generic.CacheInterface.
func (s shelf[T]) List(namespace string, selector labels.Selector) ([]T, error) {
	objects, err := s.stage.list(s.gvk, namespace)
	if err != nil {
		return nil, err
	}
	var out []T
	for _, object := range objects {
		if !selector.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		one, err := s.decoded(object)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// AddIndexer implements generic.CacheInterface.
func (s shelf[T]) AddIndexer(name string, indexer generic.Indexer[T]) { s.indexers[name] = indexer }

// GetByIndex implements generic.CacheInterface for the namespace of the cluster, or for all where they have been read.
func (s shelf[T]) GetByIndex(name, key string) ([]T, error) {
	indexer := s.indexers[name]
	if indexer == nil {
		return nil, fmt.Errorf("there is no index %s of %s", name, s.gvk.Kind)
	}
	all, err := s.List(s.stage.indexed(s.gvk), labels.Everything())
	if err != nil {
		return nil, err
	}
	var out []T
	for _, object := range all {
		keys, err := indexer(object)
		if err != nil {
			return nil, err
		}
		if slices.Contains(keys, key) {
			out = append(out, object)
		}
	}
	return out, nil
}
