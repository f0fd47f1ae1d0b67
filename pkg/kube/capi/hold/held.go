package hold

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// held is what is known of an object beyond the cache. The lock is taken for a whole patch or flush. It is a channel,
// because Flush waits for it only for a limited time. Readers use layer, which is replaced and never changed.
type held struct {
	key   key
	layer atomic.Pointer[layer]

	lock   chan struct{}
	gone   bool // the client has forgotten it
	urgent bool // the end of the reconcile flushes it
	due    *time.Timer
	check  *time.Timer
}

// layer lies over the cached object with that UID.
type layer struct {
	uid types.UID
	// written is the status of the last flush, until the cache has that version. It is nil afterwards.
	written *version
	// held is the change that is not written yet, relative to the newest status.
	held change

	// shown is the object as readers see it, made from the cached version shownOf.
	mu      sync.Mutex
	shown   client.Object
	shownOf string
}

// version is a status that the API server has stored.
type version struct {
	resourceVersion string
	status          status
}

func (l *layer) isEmpty() bool { return l == nil || l.written == nil && l.held.isEmpty() }

// newest returns the newer one of a cached status and the written status.
func (l *layer) newest(cached version) version {
	if l == nil || l.written == nil || !isOlder(cached.resourceVersion, l.written.resourceVersion) {
		return cached
	}
	return *l.written
}

func isOlder(a, b string) bool {
	n, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && n < 0
}

// over puts the layer on an object from the cache.
func (l *layer) over(obj client.Object) error {
	if l.isEmpty() || obj.GetUID() != l.uid {
		return nil
	}
	if u, ok := obj.(runtime.Unstructured); ok {
		return l.overUnstructured(obj, u)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown == nil || l.shownOf != obj.GetResourceVersion() {
		now, err := readStatus(obj)
		if err != nil {
			return err
		}
		shown := kindOf(obj).empty(client.ObjectKeyFromObject(obj))
		if err := writeStatus(shown, l.show(obj, now)); err != nil {
			return err
		}
		l.shown, l.shownOf = shown, obj.GetResourceVersion()
	}
	copyStatus(obj, l.shown)
	return nil
}

func (l *layer) overUnstructured(obj client.Object, u runtime.Unstructured) error {
	content := maps.Clone(u.UnstructuredContent()) // the maps below may belong to the cache
	now, _ := content["status"].(map[string]any)
	content["status"] = runtime.DeepCopyJSON(l.show(obj, now))
	u.SetUnstructuredContent(content)
	return nil
}

// show returns the status as readers see it.
func (l *layer) show(obj client.Object, cached status) status {
	return l.held.apply(l.newest(version{obj.GetResourceVersion(), cached}).status)
}
