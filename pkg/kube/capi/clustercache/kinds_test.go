package clustercache

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// TestKinds_OfNodesNeedNoDiscovery: nodes are read without the list of kinds. Other kinds are looked up when they are
// used.
func TestKinds_OfNodesNeedNoDiscovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var lists []string
		w.answers.Store(&answers{stalled: func(path string) bool {
			mu.Lock()
			defer mu.Unlock()
			if path == "/api" || path == "/apis" || path == "/api/v1" || strings.Count(path, "/") == 3 &&
				strings.HasPrefix(path, "/apis/") {
				lists = append(lists, path)
			}
			return false
		}})
		w.version = "tunnel/c-m-1"
		w.expect("the agent connects", true, 1)
		w.use()
		if len(lists) != 0 {
			t.Errorf("nodes are read after the lists of kinds %v", lists)
		}
		live, err := w.cache.GetUncachedClient(t.Context(), demo)
		if err != nil {
			t.Fatal(err)
		}
		named := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}
		if err := live.Create(t.Context(), named); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(lists, "/api/v1") {
			t.Errorf("the kind ConfigMap was found with the lists %v, want /api/v1 among them", lists)
		}
		w.cluster = nil
		w.work(time.Second)
	})
}

// TestKinds_AreThoseOfTheCluster compares the mapping of nodes with the one that discovery finds.
func TestKinds_AreThoseOfTheCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.api.Config("test")
	found, err := apiutil.NewDynamicRESTMapper(config, &http.Client{Transport: config.Transport})
	if err != nil {
		t.Fatal(err)
	}
	node := corev1.SchemeGroupVersion.WithKind("Node").GroupKind()
	scopes := cmp.Comparer(func(a, b meta.RESTScope) bool { return a.Name() == b.Name() })
	for name, versions := range map[string][]string{
		"any version": nil, "the version": {"v1"}, "one of two versions": {"v2", "v1"}, "an unknown version": {"v2"},
	} {
		want, wantErr := found.RESTMapping(node, versions...)
		got, err := kinds{found}.RESTMapping(node, versions...)
		if diff := cmp.Diff(want, got, scopes); diff != "" || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: error %v, want %v; mapping (-want +got):\n%s", name, err, wantErr, diff)
		}
	}
}

// BenchmarkConnection reports the live heap of one connection with a filled cache.
func BenchmarkConnection(b *testing.B) {
	w := &world{api: memkube.New(memkube.Options{Scheme: scheme.Scheme})}
	w.answers.Store(&answers{})
	c := newCache(b.Context(), w.options(), w, scheme.Scheme)
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	var kept []*connection
	before := heap()
	for range b.N {
		made, err := c.dial(b.Context(), demo)
		if err != nil {
			b.Fatal(err)
		}
		if err := made.cached.List(b.Context(), &corev1.NodeList{}, client.Limit(1)); err != nil {
			b.Fatal(err)
		}
		kept = append(kept, made)
	}
	b.ReportMetric((heap()-before)/float64(b.N), "live-B/op")
	for _, each := range kept {
		each.close()
	}
}
