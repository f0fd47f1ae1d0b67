package wakeup

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rancher/wrangler/v3/pkg/relatedresource"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

var _ relatedresource.Enqueuer = Enqueuer{}

// recorder is a Target that records the wake-ups and their delays.
type recorder struct {
	mu    sync.Mutex
	woken []Key
	after []time.Duration
}

func (r *recorder) EnqueueAfter(namespace, name string, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.woken = append(r.woken, Key{namespace, name})
	r.after = append(r.after, after)
}

func (r *recorder) take() []Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	woken := r.woken
	r.woken = nil
	return woken
}

type source struct{ cache.SharedIndexInformer }

func (s source) Informer() cache.SharedIndexInformer { return s.SharedIndexInformer }

func pod(name, cluster string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		Labels: map[string]string{"cluster": cluster}}}
}

func TestOn_EdgeNilObjectsLateDeletesAndBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fcache.NewFakeControllerSource()
		store.Add(pod("old", "first"))
		informer := cache.NewSharedIndexInformer(store, &corev1.Pod{}, 0, cache.Indexers{})
		target := &recorder{}
		ctx, cancel := context.WithCancel(t.Context())
		if err := On(ctx, target, ByLabel[*corev1.Pod]("cluster"), source{informer}); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		go informer.Run(stop)
		expect := func(step string, want ...string) {
			t.Helper()
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
			var got []string
			for _, key := range target.take() {
				got = append(got, key.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s wakes (-want +got):\n%s", step, diff)
			}
		}
		time.Sleep(time.Second)
		expect("the first list", "first")
		store.Modify(pod("old", "second"))
		expect("a changed label", "first", "second")
		store.Delete(pod("old", "second"))
		expect("a deletion", "second")
		store.Add(pod("new", ""))
		expect("an object without a reference")
		for _, after := range target.after {
			if after != 0 {
				t.Errorf("woken after %v, want at once and past back-off", after)
			}
		}
		cancel()
		synctest.Wait()
		store.Add(pod("late", "first"))
		expect("a change after the context has ended")
		close(stop)
		store.Shutdown()
		synctest.Wait()
	})
}

// A Pod deleted without a finalizer, or during a watch gap, never appears with a deletion timestamp. Its deletion still
// wakes the objects that wait for it.
func TestOn_DeletionOfAnUnseenObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fcache.NewFakeControllerSource()
		store.Add(pod("a", "first"))
		informer := cache.NewSharedIndexInformer(store, &corev1.Pod{}, 0, cache.Indexers{})
		target := &recorder{}
		leaving := func(p *corev1.Pod) []Key {
			if p.DeletionTimestamp.IsZero() {
				return nil
			}
			return []Key{{p.Namespace, p.Labels["cluster"]}}
		}
		if err := On(t.Context(), target, leaving, source{informer}); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		go informer.Run(stop)
		time.Sleep(time.Second)
		synctest.Wait()
		if woken := target.take(); len(woken) > 0 {
			t.Errorf("a running Pod wakes %v", woken)
		}
		store.Delete(pod("a", "first"))
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]Key{{"ns", "first"}}, target.take()); diff != "" {
			t.Errorf("its end wakes (-want +got):\n%s", diff)
		}
		close(stop)
		store.Shutdown()
		synctest.Wait()
	})
}

func TestKeysOf_Tombstone(t *testing.T) {
	lived := pod("gone", "first")
	var objects []any
	for _, obj := range []any{
		cache.DeletedFinalStateUnknown{Key: "ns/gone", Obj: lived},
		cache.DeletedFinalStateUnknown{Key: "ns/unknown"},
		nil,
	} {
		objects = append(objects, ended(obj))
	}
	if lived.DeletionTimestamp != nil {
		t.Error("the object of a cache is changed")
	}
	got := keysOf(ByLabel[*corev1.Pod]("cluster"), objects)
	if diff := cmp.Diff([]Key{{"ns", "first"}}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

type index map[string][]*corev1.Pod

func (i index) GetByIndex(_, key string) ([]*corev1.Pod, error) { return i[key], nil }

func TestResolvers(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "secret",
		Labels: map[string]string{"l": "labelled"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "rke.cattle.io/v1", Kind: "RKEBootstrap", Name: "owner"},
			{APIVersion: "rke.cattle.io/v1", Kind: "RKECluster", Name: "other kind"},
			{APIVersion: "other/v1", Kind: "RKEBootstrap", Name: "other group"},
		},
	}}
	byIndex := ByIndex(index{"labelled": {pod("found", "")}}, "i", func(s *corev1.Secret) string {
		return s.Labels["l"]
	})
	nothing := ByIndex(index{"": {pod("never", "")}}, "i", func(*corev1.Secret) string { return "" })
	for name, tc := range map[string]struct {
		resolve Resolver[*corev1.Secret]
		want    []Key
	}{
		"same name":    {BySameName[*corev1.Secret](), []Key{{"ns", "secret"}}},
		"label":        {ByLabel[*corev1.Secret]("l"), []Key{{"ns", "labelled"}}},
		"absent label": {ByLabel[*corev1.Secret]("x"), nil},
		"owner": {ByOwner[*corev1.Secret](schema.GroupKind{Group: "rke.cattle.io", Kind: "RKEBootstrap"}),
			[]Key{{"ns", "owner"}}},
		"index":             {byIndex, []Key{{"ns", "found"}}},
		"empty index key":   {nothing, nil},
		"several functions": {Any(ByLabel[*corev1.Secret]("l"), byIndex), []Key{{"ns", "labelled"}, {"ns", "found"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.resolve(secret)); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

type nonNamespaced struct{ names []string }

func (n *nonNamespaced) EnqueueAfter(name string, _ time.Duration) { n.names = append(n.names, name) }

func TestClusterScoped(t *testing.T) {
	target := &nonNamespaced{}
	Enqueuer{ClusterScoped(target)}.Enqueue("", "driver")
	if diff := cmp.Diff([]string{"driver"}, target.names); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}
