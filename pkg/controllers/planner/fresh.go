package planner

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/pkg/kube/planstore"
)

// forgetAfter limits the wait for a cache to show a write. A cache never shows it if the object was deleted right after
// it.
const forgetAfter = 30 * time.Second

// written remembers the last write to each object, per cluster, until a cache shows it.
type written struct {
	mu    sync.Mutex
	byKey map[string]map[object]write // by namespace/name of the control plane
}

type object struct {
	kind, namespace, name string
}

type write struct {
	uid     types.UID
	version string
	at      time.Time
}

func newWritten() *written { return &written{byKey: map[string]map[object]write{}} }

// note remembers the object that the API server returned for a write.
func (w *written) note(cluster, kind string, obj metav1.Object, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey[cluster] == nil {
		w.byKey[cluster] = map[object]write{}
	}
	w.byKey[cluster][object{kind, obj.GetNamespace(), obj.GetName()}] = write{uid: obj.GetUID(),
		version: obj.GetResourceVersion(), at: now}
}

// forget drops the writes of a cluster.
func (w *written) forget(cluster string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey, cluster)
}

// awaitNotes adds Machines to Behind if their cache may be older than the notes of an adoption. The adoption writes its
// notes before it marks the Cluster, but caches of two kinds keep no common order. A Machine read without its notes
// would get another plan, and restart. The mark therefore says how new the cache must be. Only Machines with an
// unexplained plan wait; a settled cluster has none.
func awaitNotes(v *view, seen string) {
	if v.noted == "" || planstore.Reached(seen, v.noted) {
		return
	}
	for i := range v.snapshot.Machines {
		cached := v.machines[v.snapshot.Machines[i].Name]
		if v.snapshot.Machines[i].Unexplained() && !planstore.Reached(cached.ResourceVersion, v.noted) {
			v.snapshot.Behind = append(v.snapshot.Behind, nameOf(kindMachine, cached.Namespace, cached.Name))
		}
	}
}

// seenUpTo returns the resource version up to which a cache shows its kind. Informers deliver events in order, so a
// cache that shows one event shows all earlier ones.
func seenUpTo(informer cache.SharedIndexInformer) string {
	return informer.GetStore().LastStoreSyncResourceVersion()
}

func nameOf(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// behind returns the sorted names of objects whose cached form is older than the last write. cached returns the object
// from the cache, nil if it is absent.
func (w *written) behind(cluster string, now time.Time,
	cached func(kind, namespace, name string) metav1.Object) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for key, last := range w.byKey[cluster] {
		if shows(cached(key.kind, key.namespace, key.name), last) || now.Sub(last.at) > forgetAfter {
			delete(w.byKey[cluster], key)
			continue
		}
		names = append(names, nameOf(key.kind, key.namespace, key.name))
	}
	slices.Sort(names)
	return names
}

// shows reports whether the cached object is the written one or a later one.
func shows(cached metav1.Object, last write) bool {
	if cached == nil {
		return false
	}
	if cached.GetUID() != last.uid || cached.GetResourceVersion() == last.version {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), last.version)
	return err != nil || order >= 0
}
