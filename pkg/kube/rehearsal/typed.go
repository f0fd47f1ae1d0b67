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

// kind is the client, the controller and the cache of a kind on a stage. Its informer is empty, and it enqueues
// nothing: the owner of the stage runs the handlers. List is for objects that the controllers do not create, and reads
// live objects. Other methods, such as watching, are those of the generated controller.
type kind[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.ControllerInterface[T, L]
	shelf[T]
}

// Kind puts a kind on a stage. It uses the generated controller only to identify the kind.
func Kind[T generic.RuntimeMetaObject, L runtime.Object](
	s *Stage, of generic.ControllerInterface[T, L],
) generic.ControllerInterface[T, L] {
	return kind[T, L]{of, newShelf[T](s, of.GroupVersionKind())}
}

func (k kind[T, L]) Cache() generic.CacheInterface[T]           { return k.shelf }
func (k kind[T, L]) Informer() cache.SharedIndexInformer        { return applyset.NewStill(cache.Indexers{}) }
func (k kind[T, L]) Enqueue(string, string)                     {}
func (k kind[T, L]) EnqueueAfter(string, string, time.Duration) {}
func (k kind[T, L]) Create(object T) (T, error)                 { return k.write(object, k.stage.create) }
func (k kind[T, L]) Update(object T) (T, error)                 { return k.write(object, k.stage.update) }
func (k kind[T, L]) UpdateStatus(object T) (T, error)           { return k.write(object, k.stage.updateStatus) }

func (k kind[T, L]) Patch(namespace, name string, pt types.PatchType, data []byte, sub ...string) (T, error) {
	return answer[T](k.stage.patch(id{k.gvk, namespace, name}, pt, data, sub...))
}

func (k kind[T, L]) Delete(namespace, name string, _ *metav1.DeleteOptions) error {
	return k.stage.delete(id{k.gvk, namespace, name})
}

func (k kind[T, L]) Get(namespace, name string, _ metav1.GetOptions) (T, error) {
	return k.shelf.Get(namespace, name)
}

func (k kind[T, L]) List(namespace string, opts metav1.ListOptions) (L, error) {
	found, err := k.ControllerInterface.List(namespace, opts)
	if err != nil {
		return found, k.stage.note(err, "list", collection{k.gvk, namespace})
	}
	return found, nil
}

// global is kind for kinds without a namespace.
type global[T generic.RuntimeMetaObject, L runtime.Object] struct {
	generic.NonNamespacedControllerInterface[T, L]
	shelf[T]
}

// Global puts a kind without a namespace on a stage.
func Global[T generic.RuntimeMetaObject, L runtime.Object](
	s *Stage, of generic.NonNamespacedControllerInterface[T, L],
) generic.NonNamespacedControllerInterface[T, L] {
	return global[T, L]{of, newShelf[T](s, of.GroupVersionKind())}
}

func (g global[T, L]) Cache() generic.NonNamespacedCacheInterface[T] {
	return &generic.NonNamespacedCache[T]{CacheInterface: g.shelf}
}

func (g global[T, L]) Informer() cache.SharedIndexInformer {
	return applyset.NewStill(cache.Indexers{})
}
func (g global[T, L]) Enqueue(string)                     {}
func (g global[T, L]) EnqueueAfter(string, time.Duration) {}
func (g global[T, L]) Create(object T) (T, error)         { return g.write(object, g.stage.create) }
func (g global[T, L]) Update(object T) (T, error)         { return g.write(object, g.stage.update) }
func (g global[T, L]) UpdateStatus(object T) (T, error)   { return g.write(object, g.stage.updateStatus) }

func (g global[T, L]) Patch(name string, pt types.PatchType, data []byte, sub ...string) (T, error) {
	return answer[T](g.stage.patch(id{g.gvk, "", name}, pt, data, sub...))
}

func (g global[T, L]) Delete(name string, _ *metav1.DeleteOptions) error {
	return g.stage.delete(id{g.gvk, "", name})
}

func (g global[T, L]) Get(name string, _ metav1.GetOptions) (T, error) { return g.shelf.Get("", name) }

func (g global[T, L]) List(opts metav1.ListOptions) (L, error) {
	found, err := g.NonNamespacedControllerInterface.List(opts)
	if err != nil {
		return found, g.stage.note(err, "list", collection{gvk: g.gvk})
	}
	return found, nil
}

// shelf is the cache of the typed objects of a kind on a stage.
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

// answer converts a result of the stage to its type.
func answer[T generic.RuntimeMetaObject](object *unstructured.Unstructured, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return typed[T](object)
}

// write sends an object to a method of the stage.
func (s shelf[T]) write(
	object T, do func(schema.GroupVersionKind, *unstructured.Unstructured) (*unstructured.Unstructured, error),
) (T, error) {
	sent := &unstructured.Unstructured{Object: map[string]any{}}
	text, err := json.Marshal(object)
	if err == nil {
		err = json.Unmarshal(text, &sent.Object)
	}
	if err != nil {
		return object, fmt.Errorf("encode %T: %w", object, err)
	}
	return answer[T](do(s.gvk, sent))
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

// decoded converts an object of the stage to its type, once.
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

// GetByIndex implements generic.CacheInterface for the namespace of the cluster, or for all namespaces after
// ReadEverywhere.
func (s shelf[T]) GetByIndex(name, key string) ([]T, error) {
	indexer := s.indexers[name]
	if indexer == nil {
		return nil, fmt.Errorf("there is no index %s of %s", name, s.gvk.Kind)
	}
	namespace := s.stage.Namespace
	if _, all := s.stage.listed[collection{s.gvk, everywhere}]; all {
		namespace = everywhere
	}
	all, err := s.List(namespace, labels.Everything())
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
