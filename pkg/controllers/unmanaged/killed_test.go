package unmanaged_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// A host is refused, says something else, and becomes a machine and then a node, wherever the process is killed.
func TestStory_HostWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	var want []any
	crashpoints.Each(t, 12, func(t *testing.T, n int) (writes int) {
		t.Helper()
		var got []any
		inWorld(t, func(w *world) {
			look := func() {
				var objects []*unstructured.Unstructured
				for _, gvk := range []schema.GroupVersionKind{
					corev1.SchemeGroupVersion.WithKind("Secret"), rkev1.SchemeGroupVersion.WithKind("RKEBootstrap"),
					rkev1.SchemeGroupVersion.WithKind("CustomMachine"), clusterv1.GroupVersion.WithKind("Machine"),
				} {
					objects = append(objects, w.api.Objects(gvk)...)
				}
				got = append(got, crashpoints.Bare(objects))
			}
			if n > 0 {
				w.cut = make(chan struct{})
				w.api.CutAfter(agent, n, func() { close(w.cut) })
			}
			w.ask(demo, map[string]string{"role-etcd": "yes"})
			w.pass(5 * time.Second)
			look()
			w.askAgain(demo, map[string]string{"role-etcd": "true", "node-name": "edge-1", "taints": "a=b:NoExecute"})
			w.pass(5 * time.Second)
			look()
			_, err := w.user.RKE.CustomMachine().Patch(namespace, host, types.MergePatchType, []byte(`{"spec":{"providerID":"k3s://edge-1"}}`))
			must(t, err)
			w.pass(5 * time.Second)
			look()
			w.pass(time.Minute)
			writes = w.api.Written(agent)
			w.pass(time.Minute) // who was killed at the very end is replaced
			look()
			w.quiet(time.Hour)
		})
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("killed after write %d, the outcome differs (-never killed +killed):\n%s", n, diff)
		}
		return writes
	})
}
