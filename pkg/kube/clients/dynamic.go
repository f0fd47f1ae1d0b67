package clients

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rancher/lasso/pkg/controller"
	crdcontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/apiextensions.k8s.io/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/pkg/decide/driverschema"
	"github.com/drover-io/drover/pkg/decide/fleet"
)

const (
	// MachineGroup holds the kinds of machines and their templates, one pair for each active node driver.
	MachineGroup = driverschema.MachineGroup
	// MachineConfigGroup holds the kinds of machine configurations, one for each active node driver.
	MachineConfigGroup = driverschema.ConfigGroup
)

// crdHandler is the name of the handler that follows CRDs.
const crdHandler = "drover-dynamic-kinds"

// DynamicHandler handles an object of a kind that appeared at run time. The object is nil after its deletion. Otherwise
// it belongs to the cache. Errors have the same effect as in other handlers.
type DynamicHandler func(gvk schema.GroupVersionKind, key string, obj *unstructured.Unstructured) error

// Dynamic follows the CRDs of a few API groups and keeps a cache and a work queue for each served kind. It follows a
// kind as soon as its CRD is established, without discovery. When the CRD is deleted, the cache ends.
type Dynamic struct {
	client  dynamic.Interface
	watches dynamic.Interface // the same without a timeout
	crds    crdcontrollers.CustomResourceDefinitionController
	gate    *gate
	groups  []string
	// singles are kinds of groups that Dynamic does not follow as a whole.
	singles []schema.GroupVersionKind

	follows bool

	mu       sync.Mutex
	workers  int
	ctx      context.Context // set by start, because kinds appear later and live as long
	kinds    map[schema.GroupVersionKind]*dynamicKind
	handlers []namedHandler
	indexers cache.Indexers
	onInform []func(schema.GroupVersionKind, cache.SharedIndexInformer)
}

type namedHandler struct {
	name    string
	matches func(schema.GroupVersionKind) bool
	handler DynamicHandler
}

// dynamicKind is a served kind.
type dynamicKind struct {
	gvk        schema.GroupVersionKind
	gvr        schema.GroupVersionResource
	namespaced bool
	informer   cache.SharedIndexInformer
	queue      controller.Controller
	stop       context.CancelFunc
}

func newDynamic(client, watches dynamic.Interface, crds crdcontrollers.CustomResourceDefinitionController, g *gate,
	groups []string) *Dynamic {
	d := &Dynamic{client: client, watches: watches, crds: crds, gate: g, groups: groups,
		kinds: map[schema.GroupVersionKind]*dynamicKind{}, indexers: cache.Indexers{}}
	if len(groups) == 0 {
		d.groups = []string{MachineGroup, MachineConfigGroup}
		d.singles = []schema.GroupVersionKind{fleet.ClusterKind, fleet.BundleKind}
	}
	return d
}

func (d *Dynamic) followCRDs() {
	d.follows = true
	d.crds.OnChange(d.gate.ctx, crdHandler, d.onCRD)
}

// InGroup matches the kinds of an API group whose name does not end in any of the suffixes.
func InGroup(group string, withoutSuffixes ...string) func(schema.GroupVersionKind) bool {
	return func(gvk schema.GroupVersionKind) bool {
		return gvk.Group == group && !slices.ContainsFunc(withoutSuffixes, func(suffix string) bool {
			return strings.HasSuffix(gvk.Kind, suffix)
		})
	}
}

// OnChange registers a handler for the kinds that match. Call it before Start. Handlers of one kind run one after
// another, and each runs even if another one fails.
func (d *Dynamic) OnChange(name string, matches func(schema.GroupVersionKind) bool, handler DynamicHandler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handlers = append(d.handlers, namedHandler{name, matches, handler})
}

// AddIndexer adds an index to the caches of all kinds. Call it before Start.
func (d *Dynamic) AddIndexer(name string, key func(*unstructured.Unstructured) []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.indexers[name] = func(obj any) ([]string, error) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			return key(u), nil
		}
		return nil, nil
	}
}

// OnInformer calls f with the cache of every kind, now or when it appears, before the cache is filled. It is for
// wake-ups.
func (d *Dynamic) OnInformer(f func(schema.GroupVersionKind, cache.SharedIndexInformer)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onInform = append(d.onInform, f)
	for gvk, kind := range d.kinds {
		f(gvk, kind.informer)
	}
}

// Kinds returns the served kinds, sorted.
func (d *Dynamic) Kinds() []schema.GroupVersionKind {
	d.mu.Lock()
	defer d.mu.Unlock()
	kinds := make([]schema.GroupVersionKind, 0, len(d.kinds))
	for gvk := range d.kinds {
		kinds = append(kinds, gvk)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return kinds
}

// Informer returns the cache of a kind.
func (d *Dynamic) Informer(gvk schema.GroupVersionKind) (cache.SharedIndexInformer, error) {
	kind, err := d.kind(gvk)
	if err != nil {
		return nil, err
	}
	return kind.informer, nil
}

// Synced reports whether the kind is served and its cache is filled.
func (d *Dynamic) Synced(gvk schema.GroupVersionKind) bool {
	kind, err := d.kind(gvk)
	return err == nil && kind.informer.HasSynced()
}

// Get returns a copy of an object from the cache. The error is NotFound if the object or the kind does not exist.
func (d *Dynamic) Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	kind, err := d.kind(gvk)
	if err != nil {
		return nil, err
	}
	obj, found, err := kind.informer.GetStore().GetByKey(keyOf(namespace, name))
	if err != nil {
		return nil, err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && found {
		return u.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(kind.gvr.GroupResource(), name)
}

// List returns the objects of a kind from the cache, sorted by namespace and name. They belong to the cache. An empty
// namespace means all.
func (d *Dynamic) List(gvk schema.GroupVersionKind, namespace string,
	selector labels.Selector) ([]*unstructured.Unstructured, error) {
	kind, err := d.kind(gvk)
	if err != nil {
		return nil, err
	}
	var list []*unstructured.Unstructured
	err = cache.ListAllByNamespace(kind.informer.GetIndexer(), namespace, selector, func(obj any) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			list = append(list, u)
		}
	})
	return sorted(list), err
}

// GetByIndex returns the objects that an index finds, of one kind, or of all kinds when gvk is empty. They belong to
// the cache and are sorted by namespace and name.
func (d *Dynamic) GetByIndex(gvk schema.GroupVersionKind, index, key string) ([]*unstructured.Unstructured, error) {
	kinds := []schema.GroupVersionKind{gvk}
	if gvk.Empty() {
		kinds = d.Kinds()
	}
	var list []*unstructured.Unstructured
	for _, gvk := range kinds {
		informer, err := d.Informer(gvk)
		if err != nil {
			return nil, err
		}
		found, err := informer.GetIndexer().ByIndex(index, key)
		if err != nil {
			return nil, err
		}
		for _, obj := range found {
			if u, ok := obj.(*unstructured.Unstructured); ok {
				list = append(list, u)
			}
		}
	}
	return sorted(list), nil
}

// EnqueueAfter runs the handlers of an object after that time. It does nothing if the kind is not served.
func (d *Dynamic) EnqueueAfter(gvk schema.GroupVersionKind, namespace, name string, after time.Duration) {
	if kind, err := d.kind(gvk); err == nil {
		kind.queue.EnqueueAfter(namespace, name, after)
	}
}

func (d *Dynamic) kind(gvk schema.GroupVersionKind) (*dynamicKind, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kind := d.kinds[gvk]; kind != nil {
		return kind, nil
	}
	err := apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, "")
	err.ErrStatus.Message = fmt.Sprintf(
		"kind %s is not served: its node driver is not active, or its CRD is not established yet", gvk)
	return nil, err
}

// start gives existing and later kinds workers until ctx ends.
func (d *Dynamic) start(ctx context.Context, workers int) error {
	if !d.follows {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ctx, d.workers = ctx, workers
	crds, err := d.crds.Cache().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list CRDs: %w", err)
	}
	for _, crd := range crds {
		d.follow(crd) //nolint:contextcheck // a kind lives as long as the workers: their context was kept above
	}
	return nil
}

func (d *Dynamic) onCRD(key string,
	crd *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if crd == nil || crd.DeletionTimestamp != nil {
		for gvk, kind := range d.kinds {
			if kind.gvr.GroupResource().String() == key {
				kind.stop()
				delete(d.kinds, gvk)
			}
		}
		return crd, nil
	}
	if d.ctx != nil {
		d.follow(crd)
	}
	return crd, nil
}

// follow starts a cache and a queue for every served version of the CRD that has none. The caller holds the lock.
func (d *Dynamic) follow(crd *apiextensionsv1.CustomResourceDefinition) {
	if !established(crd) || crd.DeletionTimestamp != nil || d.ctx.Err() != nil {
		return
	}
	for _, version := range crd.Spec.Versions {
		gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
		if !slices.Contains(d.groups, gvk.Group) && !slices.Contains(d.singles, gvk) {
			continue
		}
		if version.Served && d.kinds[gvk] == nil {
			d.kinds[gvk] = d.newKind(gvk, crd.Spec.Names.Plural, crd.Spec.Scope == apiextensionsv1.NamespaceScoped)
		}
	}
}

func (d *Dynamic) newKind(gvk schema.GroupVersionKind, plural string, namespaced bool) *dynamicKind {
	ctx, stop := context.WithCancel(d.ctx)
	gvr := gvk.GroupVersion().WithResource(plural)
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	maps.Copy(indexers, d.indexers)
	informer := dynamicinformer.NewFilteredDynamicInformer(d.watches, gvr, metav1.NamespaceAll, 0, indexers,
		nil).Informer()
	_ = informer.SetTransform(transformOf(gvk)) // fails only after the start
	for _, f := range d.onInform {
		f(gvk, informer)
	}
	handlers := &workers{name: gvk.String(), informer: func() cache.SharedIndexInformer { return informer },
		run: d.handlersFor(gvk)}
	queue := controller.New(gvk.String(), informer, func(context.Context) error { return nil }, controller.HandlerFunc(
		func(key string, _ runtime.Object) error {
			handlers.add(key)
			return nil
		}), nil)
	go informer.Run(ctx.Done())
	count := d.workers
	go func() {
		// A queue that waits for its cache holds the lock that events need. In virtual time both would wait forever.
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			_ = queue.Start(ctx, 1) // fails only when ctx has ended
			handlers.start(ctx, count)
		}
	}()
	return &dynamicKind{gvk: gvk, gvr: gvr, namespaced: namespaced, informer: informer, queue: queue, stop: stop}
}

// handlersFor joins the handlers of a kind, and their errors.
func (d *Dynamic) handlersFor(gvk schema.GroupVersionKind) func(key string, obj runtime.Object) error {
	var handlers []namedHandler
	for _, h := range d.handlers {
		if h.matches(gvk) {
			handlers = append(handlers, h)
		}
	}
	return func(key string, obj runtime.Object) error {
		u, _ := obj.(*unstructured.Unstructured)
		var messages []string
		for _, h := range handlers {
			_, err := d.gate.run(h.name, key, func() (runtime.Object, error) { return nil, h.handler(gvk, key, u) })
			if err != nil {
				messages = append(messages, fmt.Sprintf("handler %s: %v", h.name, err))
			}
		}
		if len(messages) > 0 {
			return fmt.Errorf("%s", strings.Join(messages, "; "))
		}
		return nil
	}
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

func sorted(list []*unstructured.Unstructured) []*unstructured.Unstructured {
	slices.SortFunc(list, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName()+" "+a.GetKind(), b.GetNamespace()+"/"+b.GetName()+" "+
			b.GetKind())
	})
	return list
}

func keyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
