package planner

import (
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/drover-io/drover/pkg/planstore"
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

// noteAdopted looks for what an adoption noted on Machines. It notes them before it marks the Cluster, but caches of two kinds keep no order: a
// Machine that is read without its notes would get another plan, and restart. So Machines with plans that nothing explains, of which a settled
// cluster has none, are read from the API, and their cache is waited for.
func (h *handler) noteAdopted(cluster string, v *view) error {
	for i := range v.snapshot.Machines {
		if !v.snapshot.Machines[i].Unexplained() {
			continue
		}
		cached := v.machines[v.snapshot.Machines[i].Name]
		live, err := h.Machines.Get(cached.Namespace, cached.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // its cache says so soon
		}
		if err != nil {
			return fmt.Errorf("read the notes on machine %s: %w", cached.Name, err)
		}
		if planstore.ReadMarks(live) != planstore.ReadMarks(cached) {
			h.written.note(cluster, kindMachine, live, v.snapshot.Now)
			v.snapshot.Behind = append(v.snapshot.Behind, nameOf(kindMachine, live.Namespace, live.Name))
		}
	}
	return nil
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
