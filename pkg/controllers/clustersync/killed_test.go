package clustersync_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
)

// The copies are right wherever the process is killed, and then nothing more is written.
func TestStory_CopiesWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	var want map[string]any
	crashpoints.Each(t, 6, func(t *testing.T, n int) (writes int) {
		t.Helper()
		inWorld(t, func(w *world) {
			if n > 0 {
				w.cut = make(chan struct{})
				w.cluster.CutAfter(inside, n, func() { close(w.cut) })
			}
			w.connect(true)
			w.add(source("a"), source("b"), sourceConfigMap("c"))
			w.elapse(time.Minute)
			w.edit("a", func(s *corev1.Secret) { s.Data["password"] = []byte("another-one") })
			w.edit("b", func(s *corev1.Secret) { s.Annotations[provv1.SyncTargetNameAnnotation] = "renamed" })
			w.elapse(time.Minute)
			must(w.T, w.user.CoreV1().Secrets(fleet).Delete(w.Context(), "a", metav1.DeleteOptions{}))
			other := source("a")
			other.Type = corev1.SecretTypeOpaque
			w.add(other)
			must(w.T, w.user.CoreV1().ConfigMaps(fleet).Delete(w.Context(), "c", metav1.DeleteOptions{}))
			w.elapse(time.Minute)
			writes = w.cluster.Written(inside)
			w.elapse(time.Minute) // restarts the controller if it was killed at the very end
			w.quiet(time.Hour)
			got := crashpoints.Bare(append(w.cluster.Objects(corev1.SchemeGroupVersion.WithKind("Secret")),
				w.cluster.Objects(corev1.SchemeGroupVersion.WithKind("ConfigMap"))...))
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				w.Errorf("killed after write %d, the outcome differs (-never killed +killed):\n%s", n, diff)
			}
		})
		return writes
	})
}
