// Package fakes drives Drover's controllers from outside. It registers them with wrangler's generated fakes, captures
// the handlers, and calls them like events do.
package fakes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch"
	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/generic"
	"github.com/rancher/wrangler/v3/pkg/generic/fake"
	"go.uber.org/mock/gomock"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

const (
	namespace = "fleet-default"
	instance  = "me"
)

var (
	ours   = map[string]string{"drover.io/instance": instance}
	now    = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	noKind = schema.GroupResource{Resource: "things"}
	no     = apierrors.NewForbidden(noKind, "x", errors.New("the quota is exhausted"))
)

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is the shared state of all fakes of a test.
type world struct {
	*testing.T
	mocks *gomock.Controller
	// writes are the requested writes, including rejected ones, as "verb Kind name", in order.
	writes []string
	// fail maps writes to their errors.
	fail map[string]error
	// after are the delays that handlers requested until their next run.
	after   []time.Duration
	version int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{T: t, mocks: gomock.NewController(t), fail: map[string]error{}, version: 1}
}

func (w *world) write(verb, kind, name string) error {
	what := strings.Join([]string{verb, kind, name}, " ")
	w.writes = append(w.writes, what)
	return w.fail[what]
}

// wantWrites compares the writes since its last call.
func (w *world) wantWrites(story string, want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.writes); diff != "" {
		w.Errorf("%s: writes (-want +got):\n%s", story, diff)
	}
	w.writes = nil
}

// table holds the objects of one kind for the fakes. Caches show every write at once.
type table[T generic.RuntimeMetaObject] struct {
	w        *world
	kind     string
	rows     map[string]T
	indexers map[string]generic.Indexer[T]
	handlers map[string]generic.ObjectHandler[T]
}

func newTable[T generic.RuntimeMetaObject](w *world, kind string, rows []T) *table[T] {
	s := &table[T]{w: w, kind: kind, rows: map[string]T{}, indexers: map[string]generic.Indexer[T]{},
		handlers: map[string]generic.ObjectHandler[T]{}}
	for _, row := range rows {
		s.set(row)
	}
	return s
}

func (s *table[T]) set(obj T) { s.rows[obj.GetNamespace()+"/"+obj.GetName()] = obj }

// handle runs a handler with an object of the cache, as an event would. A missing object counts as deleted.
func (s *table[T]) handle(handler, namespace, name string) error {
	s.w.Helper()
	handle, ok := s.handlers[handler]
	if !ok {
		s.w.Fatalf("%s has handlers %v, not %s", s.kind, slices.Sorted(maps.Keys(s.handlers)), handler)
	}
	_, err := handle(strings.TrimPrefix(namespace+"/"+name, "/"), s.rows[namespace+"/"+name])
	return err
}

func (s *table[T]) must(namespace, name string) T {
	s.w.Helper()
	row, err := s.get(namespace, name)
	must(s.w.T, err)
	return row
}

func (s *table[T]) get(namespace, name string) (T, error) {
	row, ok := s.rows[namespace+"/"+name]
	if !ok {
		return row, apierrors.NewNotFound(schema.GroupResource{Resource: s.kind}, name)
	}
	return row, nil
}

func (s *table[T]) list(namespace string, selector labels.Selector) ([]T, error) {
	var found []T
	for _, key := range slices.Sorted(maps.Keys(s.rows)) {
		row := s.rows[key]
		if (namespace == "" || row.GetNamespace() == namespace) && selector.Matches(labels.Set(row.GetLabels())) {
			found = append(found, row)
		}
	}
	return found, nil
}

func (s *table[T]) byIndex(index, key string) ([]T, error) {
	indexer, ok := s.indexers[index]
	if !ok {
		return nil, fmt.Errorf("index %s of %s was never added", index, s.kind)
	}
	var found []T
	for _, name := range slices.Sorted(maps.Keys(s.rows)) {
		keys, err := indexer(s.rows[name])
		if err != nil {
			return nil, err
		}
		if slices.Contains(keys, key) {
			found = append(found, s.rows[name])
		}
	}
	return found, nil
}

// store answers create, update and update status.
func (s *table[T]) store(verb string) func(T) (T, error) {
	return func(obj T) (T, error) {
		var none T
		if err := s.w.write(verb, s.kind, obj.GetName()); err != nil {
			return none, err
		}
		_, err := s.get(obj.GetNamespace(), obj.GetName())
		if verb == "create" && err == nil {
			return none, apierrors.NewAlreadyExists(schema.GroupResource{Resource: s.kind}, obj.GetName())
		}
		if verb != "create" && err != nil {
			return none, err
		}
		return s.bump(obj.DeepCopyObject().(T)), nil
	}
}

func (s *table[T]) bump(obj T) T {
	s.w.version++
	obj.SetResourceVersion(strconv.Itoa(s.w.version))
	if obj.GetUID() == "" {
		obj.SetUID(types.UID("uid-" + obj.GetName()))
	}
	s.set(obj)
	return obj
}

func (s *table[T]) patch(verb, namespace, name string, kind types.PatchType, body []byte) (T, error) {
	var none T
	if err := s.w.write(verb, s.kind, name); err != nil {
		return none, err
	}
	row, err := s.get(namespace, name)
	if err != nil {
		return none, err
	}
	raw, err := json.Marshal(row)
	if err != nil {
		return none, err
	}
	if raw, err = patched(kind, raw, body); err != nil {
		return none, err
	}
	patched := reflect.New(reflect.TypeOf(row).Elem()).Interface().(T)
	if err := json.Unmarshal(raw, patched); err != nil {
		return none, err
	}
	return s.bump(patched), nil
}

// patched applies a patch as the API server does.
func patched(kind types.PatchType, raw, body []byte) ([]byte, error) {
	if kind != types.JSONPatchType {
		return jsonpatch.MergePatch(raw, body)
	}
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, err
	}
	return patch.Apply(raw)
}

func (s *table[T]) delete(namespace, name string) error {
	if err := s.w.write("delete", s.kind, name); err != nil {
		return err
	}
	delete(s.rows, namespace+"/"+name)
	return nil
}

func informer() cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
}

func (s *table[T]) onChange(_ context.Context, name string, handler generic.ObjectHandler[T]) {
	s.handlers[name] = handler
}

// mockCache returns the generated fake of a cache for the table.
func mockCache[T generic.RuntimeMetaObject](s *table[T]) *fake.MockCacheInterface[T] {
	m := fake.NewMockCacheInterface[T](s.w.mocks)
	m.EXPECT().Get(gomock.Any(), gomock.Any()).DoAndReturn(s.get).AnyTimes()
	m.EXPECT().List(gomock.Any(), gomock.Any()).DoAndReturn(s.list).AnyTimes()
	m.EXPECT().GetByIndex(gomock.Any(), gomock.Any()).DoAndReturn(s.byIndex).AnyTimes()
	m.EXPECT().AddIndexer(gomock.Any(), gomock.Any()).Do(func(name string, indexer generic.Indexer[T]) {
		s.indexers[name] = indexer
	}).AnyTimes()
	return m
}

// namespaced returns the generated fake of the controller of a namespaced kind.
func namespaced[T generic.RuntimeMetaObject, TList runtime.Object](w *world, kind string,
	rows ...T) (*fake.MockControllerInterface[T, TList], *table[T]) {
	s := newTable(w, kind, rows)
	m := fake.NewMockControllerInterface[T, TList](w.mocks)
	m.EXPECT().Cache().Return(mockCache(s)).AnyTimes()
	m.EXPECT().Informer().Return(informer()).AnyTimes()
	m.EXPECT().OnChange(gomock.Any(), gomock.Any(), gomock.Any()).Do(s.onChange).AnyTimes()
	m.EXPECT().EnqueueAfter(gomock.Any(), gomock.Any(), gomock.Any()).Do(func(_, _ string, after time.Duration) {
		w.after = append(w.after, after)
	}).AnyTimes()
	m.EXPECT().Get(gomock.Any(), gomock.Any(), gomock.Any()).DoAndReturn(func(namespace, name string,
		_ metav1.GetOptions) (T, error) {
		return s.get(namespace, name)
	}).AnyTimes()
	m.EXPECT().Create(gomock.Any()).DoAndReturn(s.store("create")).AnyTimes()
	m.EXPECT().Update(gomock.Any()).DoAndReturn(s.store("update")).AnyTimes()
	m.EXPECT().UpdateStatus(gomock.Any()).DoAndReturn(s.store("update status")).AnyTimes()
	m.EXPECT().Delete(gomock.Any(), gomock.Any(), gomock.Any()).DoAndReturn(func(namespace, name string,
		_ *metav1.DeleteOptions) error {
		return s.delete(namespace, name)
	}).AnyTimes()
	patch := func(namespace, name string, kind types.PatchType, body []byte, subresource ...string) (T, error) {
		return s.patch(strings.Join(append([]string{"patch"}, subresource...), " "), namespace, name, kind, body)
	}
	m.EXPECT().Patch(gomock.Any(), gomock.Any(), gomock.Any(), gomock.Any()).DoAndReturn(patch).AnyTimes()
	m.EXPECT().Patch(gomock.Any(), gomock.Any(), gomock.Any(), gomock.Any(), "status").DoAndReturn(patch).AnyTimes()
	return m, s
}

// clusterScoped returns the generated fake of the controller of a cluster-scoped kind.
func clusterScoped[T generic.RuntimeMetaObject, TList runtime.Object](w *world, kind string,
	rows ...T) (*fake.MockNonNamespacedControllerInterface[T, TList], *table[T]) {
	s := newTable(w, kind, rows)
	reader := fake.NewMockNonNamespacedCacheInterface[T](w.mocks)
	reader.EXPECT().Get(gomock.Any()).DoAndReturn(func(name string) (T, error) { return s.get("", name) }).AnyTimes()
	reader.EXPECT().List(gomock.Any()).DoAndReturn(func(selector labels.Selector) ([]T, error) {
		return s.list("", selector)
	}).AnyTimes()
	reader.EXPECT().GetByIndex(gomock.Any(), gomock.Any()).DoAndReturn(s.byIndex).AnyTimes()
	reader.EXPECT().AddIndexer(gomock.Any(), gomock.Any()).Do(func(name string, indexer generic.Indexer[T]) {
		s.indexers[name] = indexer
	}).AnyTimes()
	m := fake.NewMockNonNamespacedControllerInterface[T, TList](w.mocks)
	m.EXPECT().Cache().Return(reader).AnyTimes()
	m.EXPECT().Informer().Return(informer()).AnyTimes()
	m.EXPECT().OnChange(gomock.Any(), gomock.Any(), gomock.Any()).Do(s.onChange).AnyTimes()
	m.EXPECT().EnqueueAfter(gomock.Any(), gomock.Any()).Do(func(_ string, after time.Duration) {
		w.after = append(w.after, after)
	}).AnyTimes()
	return m, s
}
