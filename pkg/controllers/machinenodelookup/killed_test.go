package machinenodelookup_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// retell runs story once without a kill, and then again for several points at which the process is killed and
// restarted. At the end, the API must hold the same objects in all runs, and nothing more is written.
func retell(t *testing.T, most int, story func(t *testing.T, w *world)) {
	t.Helper()
	var want map[string]any
	crashpoints.Each(t, most, func(t *testing.T, n int) (writes int) {
		t.Helper()
		tell(t, func(t *testing.T, w *world) {
			if n > 0 {
				cut := make(chan struct{})
				w.cut = cut
				w.api.CutAfter(manager, n, func() { close(cut) })
			}
			story(t, w)
			writes = w.api.Written(manager)
			w.elapse(time.Minute) // restarts the controller if it was killed at the very end
			var objects []*unstructured.Unstructured
			for _, gvk := range []schema.GroupVersionKind{driverKind, custom,
				clusterv1.GroupVersion.WithKind("Machine")} {
				objects = append(objects, w.api.Objects(gvk)...)
			}
			got := crashpoints.Bare(objects)
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("killed after write %d, the outcome differs (-never killed +killed):\n%s", n, diff)
			}
			w.api.ResetLog()
			w.elapse(time.Hour)
			if late := w.api.Writes(manager); len(late) > 0 {
				t.Errorf("killed after write %d: %d writes without a change: %v", n, len(late), late)
			}
		})
		return writes
	})
}
