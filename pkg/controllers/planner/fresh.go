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

// forgetAfter is how long a write is waited for that no cache ever shows, because the object was deleted right after it.
const forgetAfter = 30 * time.Second

// written remembers our last write of each object, per cluster, until a cache shows it.
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

// note remembers that obj is what the API server returned for our write.
func (w *written) note(cluster, kind string, obj metav1.Object, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey[cluster] == nil {
		w.byKey[cluster] = map[object]write{}
	}
	w.byKey[cluster][object{kind, obj.GetNamespace(), obj.GetName()}] = write{uid: obj.GetUID(), version: obj.GetResourceVersion(), at: now}
}

// forget drops what is remembered of a cluster.
func (w *written) forget(cluster string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey, cluster)
}

// awaitNotes adds the Machines to those behind whose cache may be older than what an adoption noted on them. It notes them before it marks the
// Cluster, but caches of two kinds keep no order: a Machine that is read without its notes would get another plan, and restart. So the mark
// says how new the cache has to be, and Machines with plans that nothing explains, of which a settled cluster has none, wait for that.
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

// seenUpTo is the resource version up to which a cache shows its kind. Informers hand events on in their order, so that a cache that shows one event
// shows all before it.
func seenUpTo(informer cache.SharedIndexInformer) string {
	return informer.GetStore().LastStoreSyncResourceVersion()
}

func nameOf(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// behind returns the sorted names of objects whose cached form is older than our last write. cached returns the object from
// the cache, nil when it is not there.
func (w *written) behind(cluster string, now time.Time, cached func(kind, namespace, name string) metav1.Object) []string {
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

// shows reports whether the cached object is the one we wrote or a later one.
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
