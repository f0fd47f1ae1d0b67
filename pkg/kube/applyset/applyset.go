package applyset

import (
	"context"
	"errors"
	"fmt"

	"github.com/rancher/wrangler/v3/pkg/apply"
	"github.com/rancher/wrangler/v3/pkg/objectset"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// changesPerSecond is how often one set may be applied. wrangler's own limit of one a second stops a worker during any
// ordinary rollout.
const changesPerSecond = 100

// OwnerRefs selects the owner reference of the objects of a set.
type OwnerRefs int

const (
	// NoOwnerRef sets no owner reference.
	NoOwnerRef OwnerRefs = iota
	// OwnerRef sets a plain reference: the garbage collector deletes the objects with the owner.
	OwnerRef
	// ControllerRef sets the controller reference, which also blocks the owner's foreground deletion.
	ControllerRef
)

// Options are the dependencies of a Set.
type Options struct {
	// Discovery finds the resource of a kind.
	Discovery discovery.DiscoveryInterface
	// Dynamic writes the objects.
	Dynamic dynamic.Interface
	// Scheme knows the kinds of typed owners and objects.
	Scheme *runtime.Scheme
	// Informer returns the cache of a kind.
	Informer func(schema.GroupVersionKind) (cache.SharedIndexInformer, error)
}

// Set applies sets of objects other than Secrets.
type Set struct {
	opts    Options
	apply   apply.Apply
	settled *settled
}

// New returns a Set.
func New(opts Options) *Set {
	factory := func(gvr schema.GroupVersionResource) (dynamic.NamespaceableResourceInterface, error) {
		return recording{opts.Dynamic.Resource(gvr), gvr.Resource}, nil
	}
	return &Set{opts: opts, apply: apply.New(opts.Discovery, factory), settled: newSettled()}
}

// Watch creates caches of the kinds, with the index that finds sets. Controllers call it when they register, with the
// kinds of their sets. A cache that is created later is not started.
func (s *Set) Watch(kinds ...schema.GroupVersionKind) error {
	_, err := s.informers(kinds)
	return err
}

// Apply makes the set equal to objs. kinds are all kinds that the set may contain. Apply deletes objects of these kinds
// that are not in objs, unless their label objectset.rio.cattle.io/prune is "false". It refuses objects of other kinds.
//
// The owner needs a UID. Objects without a namespace get the owner's.
func (s *Set) Apply(ctx context.Context, setID string, owner runtime.Object, refs OwnerRefs,
	kinds []schema.GroupVersionKind, objs []runtime.Object) (Result, error) {
	if len(objs) == 0 {
		return Result{}, errors.New("apply set " + setID + ": no objects: use Purge to delete them all")
	}
	identity, err := s.identify(setID, owner, refs)
	if err != nil {
		return Result{}, err
	}
	prepared, err := s.prepare(setID, kinds, objs)
	if err != nil {
		return Result{}, err
	}
	return s.run(ctx, identity, kinds, prepared)
}

// identity identifies a set and the owner that its objects refer to.
type identity struct {
	setID          string
	owner          runtime.Object
	ownerNamespace string
	refs           OwnerRefs
}

func (s *Set) identify(setID string, owner runtime.Object, refs OwnerRefs) (identity, error) {
	typed, err := withKind(s.opts.Scheme, owner)
	if err != nil {
		return identity{}, fmt.Errorf("apply set %s: owner: %w", setID, err)
	}
	m, err := meta.Accessor(typed)
	if err != nil {
		return identity{}, fmt.Errorf("apply set %s: owner: %w", setID, err)
	}
	if m.GetUID() == "" || m.GetName() == "" {
		return identity{}, fmt.Errorf("apply set %s: owner %q has no UID: it does not come from the API server", setID,
			m.GetName())
	}
	return identity{setID: setID, owner: typed, ownerNamespace: m.GetNamespace(), refs: refs}, nil
}

// prepare checks the objects and sets the kind of each, on a copy.
func (s *Set) prepare(setID string, kinds []schema.GroupVersionKind, objs []runtime.Object) ([]runtime.Object, error) {
	allowed := map[schema.GroupVersionKind]bool{}
	for _, gvk := range kinds {
		allowed[gvk] = true
	}
	seen := map[string]bool{}
	prepared := make([]runtime.Object, 0, len(objs))
	for _, obj := range objs {
		typed, err := withKind(s.opts.Scheme, obj)
		if err != nil {
			return nil, fmt.Errorf("apply set %s: %w", setID, err)
		}
		m, err := meta.Accessor(typed)
		if err != nil {
			return nil, fmt.Errorf("apply set %s: %w", setID, err)
		}
		gvk := typed.GetObjectKind().GroupVersionKind()
		id := describe(gvk.Kind, m.GetNamespace(), m.GetName())
		switch {
		case isSecret(gvk):
			return nil, fmt.Errorf("apply set %s: %s: Secrets would leak into an annotation: use Secrets", setID, id)
		case m.GetName() == "":
			return nil, fmt.Errorf("apply set %s: %s has no name", setID, gvk.Kind)
		case !allowed[gvk]:
			return nil, fmt.Errorf("apply set %s: %s: kind %s is not one of the set", setID, id, gvk)
		case seen[gvk.String()+id]:
			return nil, fmt.Errorf("apply set %s: %s appears twice", setID, id)
		}
		seen[gvk.String()+id] = true
		prepared = append(prepared, typed)
	}
	return prepared, nil
}

func (s *Set) run(ctx context.Context, id identity, kinds []schema.GroupVersionKind, objs []runtime.Object) (Result,
	error) {
	getters, err := s.filled(kinds)
	if err != nil {
		return Result{}, fmt.Errorf("apply set %s: %w", id.setID, err)
	}
	labels, _, err := apply.GetLabelsAndAnnotations(id.setID, id.owner)
	if err != nil {
		return Result{}, fmt.Errorf("apply set %s: %w", id.setID, err)
	}
	set := labels[apply.LabelHash]
	fingerprint, err := s.settled.fingerprint(id, set, getters, objs)
	if err != nil {
		return Result{}, fmt.Errorf("apply set %s: %w", id.setID, err)
	}
	if s.settled.is(set, fingerprint) {
		return Result{}, nil
	}
	record := &recorder{set: set}
	a := s.apply.WithContext(context.WithValue(ctx, recorderKey{}, record)).
		WithSetID(id.setID).
		WithOwner(id.owner).
		WithDefaultNamespace(id.ownerNamespace).
		WithRateLimiting(changesPerSecond).
		WithCacheTypes(getters...)
	if id.refs != NoOwnerRef {
		a = a.WithSetOwnerReference(id.refs == ControllerRef, id.refs == ControllerRef)
	}
	s.settled.forget(set)
	if err := keeping(a, KeptFields(ctx)).Apply(objectset.NewObjectSet(objs...)); err != nil {
		if len(record.foreign) > 0 {
			err = &ForeignError{err, record.foreign}
		}
		return record.sorted(), fmt.Errorf("apply set %s: %w", id.setID, err)
	}
	if len(objs) > 0 && !record.tried() {
		// If the caches changed in the meantime, the change may not have been compared.
		if after, err := s.settled.fingerprint(id, set, getters, objs); err == nil && after == fingerprint {
			s.settled.note(set, fingerprint)
		}
	}
	return record.sorted(), nil
}

// filled returns the caches of the kinds. It fails if one of them is not filled yet.
func (s *Set) filled(kinds []schema.GroupVersionKind) ([]apply.InformerGetter, error) {
	getters, err := s.informers(kinds)
	if err != nil {
		return nil, err
	}
	for _, g := range getters {
		if !g.Informer().HasSynced() {
			return nil, fmt.Errorf("the cache of %s has not been filled", g.GroupVersionKind())
		}
	}
	return getters, nil
}

func (s *Set) informers(kinds []schema.GroupVersionKind) ([]apply.InformerGetter, error) {
	getters := make([]apply.InformerGetter, 0, len(kinds))
	for _, gvk := range kinds {
		if isSecret(gvk) {
			return nil, errors.New("a set holds no Secrets: use Secrets")
		}
		informer, err := s.opts.Informer(gvk)
		if err != nil {
			return nil, fmt.Errorf("find the cache of %s: %w", gvk, err)
		}
		if err := addIndex(informer); err != nil {
			return nil, fmt.Errorf("index the cache of %s: %w", gvk, err)
		}
		getters = append(getters, getter{informer: informer, gvk: gvk})
	}
	return getters, nil
}

// hashIndex is the name of the index in which wrangler's apply finds its sets.
const hashIndex = "wrangler.byObjectSetHash"

func addIndex(informer cache.SharedIndexInformer) error {
	if informer.GetIndexer().GetIndexers()[hashIndex] != nil {
		return nil
	}
	err := informer.AddIndexers(cache.Indexers{hashIndex: byHash})
	if err != nil && informer.GetIndexer().GetIndexers()[hashIndex] != nil {
		return nil // a concurrent call added it
	}
	return err
}

func byHash(obj any) ([]string, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if hash := m.GetLabels()[apply.LabelHash]; hash != "" {
		return []string{hash}, nil
	}
	return nil, nil
}

// getter gives wrangler's apply the cache of a kind.
type getter struct {
	informer cache.SharedIndexInformer
	gvk      schema.GroupVersionKind
}

func (g getter) Informer() cache.SharedIndexInformer       { return g.informer }
func (g getter) GroupVersionKind() schema.GroupVersionKind { return g.gvk }
func isSecret(gvk schema.GroupVersionKind) bool {
	return gvk == corev1.SchemeGroupVersion.WithKind("Secret")
}

// withKind returns a copy of obj with its kind. Objects from generated clients have none, and wrangler would look it up
// in its own scheme, which does not know Drover's kinds.
func withKind(scheme *runtime.Scheme, obj runtime.Object) (runtime.Object, error) {
	obj = obj.DeepCopyObject()
	if obj.GetObjectKind().GroupVersionKind().Kind != "" {
		return obj, nil
	}
	kinds, _, err := scheme.ObjectKinds(obj)
	if err != nil {
		return nil, fmt.Errorf("find the kind of %T: %w", obj, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	return obj, nil
}
