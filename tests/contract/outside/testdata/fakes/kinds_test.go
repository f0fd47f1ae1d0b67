package fakes

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/pkg/kube/applyset"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// kinds simulates the kinds of node drivers, which have no generated clients.
type kinds struct {
	*table[*unstructured.Unstructured]
	unserved bool
	handler  clients.DynamicHandler
	matches  func(schema.GroupVersionKind) bool
}

func newKinds(w *world, rows ...*unstructured.Unstructured) *kinds {
	return &kinds{table: newTable(w, "dynamic", rows)}
}

func (k *kinds) Get(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	found, err := k.get(namespace, name)
	if err == nil && found.GroupVersionKind() != gvk {
		return k.get(namespace, name+" of "+gvk.Kind)
	}
	return found, err
}

func (k *kinds) List(gvk schema.GroupVersionKind, namespace string,
	selector labels.Selector) ([]*unstructured.Unstructured, error) {
	found, err := k.list(namespace, selector)
	return slices.DeleteFunc(found, func(u *unstructured.Unstructured) bool { return u.GroupVersionKind() != gvk }), err
}

func (k *kinds) AnyLive(_ context.Context, gvk schema.GroupVersionKind) (bool, error) {
	found, err := k.List(gvk, "", labels.Everything())
	return len(found) > 0, err
}

func (k *kinds) Update(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	k.kind = obj.GetKind()
	return k.store("update")(obj)
}

func (k *kinds) UpdateStatus(_ context.Context, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	k.kind = obj.GetKind()
	return k.store("update status")(obj)
}

func (k *kinds) Delete(_ context.Context, gvk schema.GroupVersionKind, namespace, name string) error {
	k.kind = gvk.Kind
	return k.delete(namespace, name)
}

func (k *kinds) Kinds() []schema.GroupVersionKind                                    { return nil }
func (k *kinds) Synced(schema.GroupVersionKind) bool                                 { return !k.unserved }
func (k *kinds) OnInformer(func(schema.GroupVersionKind, cache.SharedIndexInformer)) {}

func (k *kinds) OnChange(_ string, matches func(schema.GroupVersionKind) bool, handler clients.DynamicHandler) {
	k.matches, k.handler = matches, handler
}

func (k *kinds) EnqueueAfter(_ schema.GroupVersionKind, _, _ string, after time.Duration) {
	k.w.after = append(k.w.after, after)
}

// sets simulates apply sets. Applying an equal object is no write.
type sets struct {
	w    *world
	last map[string]string
	objs []runtime.Object
}

func newSets(w *world) *sets { return &sets{w: w, last: map[string]string{}} }

func (s *sets) Watch(...schema.GroupVersionKind) error { return nil }

func (s *sets) Apply(_ context.Context, setID string, _ runtime.Object, _ applyset.OwnerRefs,
	_ []schema.GroupVersionKind, objs []runtime.Object) (applyset.Result, error) {
	return s.apply(setID, objs)
}

func (s *sets) PurgeLive(_ context.Context, setID string, _ schema.GroupVersionKind, _, name string,
	_ []schema.GroupVersionKind) error {
	return s.w.write("purge", setID, name)
}

func (s *sets) PurgeKept(_ context.Context, setID string, _ schema.GroupVersionKind, _, name string,
	_ []schema.GroupVersionKind) error {
	return s.w.write("purge what was kept of", setID, name)
}

func (s *sets) Purge(_ context.Context, setID string, _ schema.GroupVersionKind, _, name string,
	_ []schema.GroupVersionKind) (applyset.Result, error) {
	return applyset.Result{}, s.w.write("purge", setID, name)
}

func (s *sets) apply(setID string, objs []runtime.Object) (applyset.Result, error) {
	raw, err := json.Marshal(objs)
	if err != nil || s.last[setID] == string(raw) {
		return applyset.Result{}, err
	}
	var names []string
	for _, obj := range objs {
		names = append(names, nameOf(obj))
	}
	if err := s.w.write("apply", setID, strings.Join(names, ", ")); err != nil {
		return applyset.Result{}, err
	}
	s.last[setID], s.objs = string(raw), objs
	return applyset.Result{Created: names}, nil
}

func nameOf(obj runtime.Object) string {
	named, ok := obj.(interface{ GetName() string })
	if !ok {
		return "?"
	}
	return named.GetName()
}

// secretSets simulates apply sets of Secrets.
type secretSets struct{ *sets }

func (s secretSets) Apply(_ context.Context, setID string, _ runtime.Object, _ applyset.OwnerRefs,
	desired []*corev1.Secret) (applyset.Result, error) {
	var objs []runtime.Object
	for _, secret := range desired {
		objs = append(objs, secret)
	}
	return s.apply("secrets of "+setID, objs)
}
