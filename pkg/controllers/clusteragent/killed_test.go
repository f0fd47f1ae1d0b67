package clusteragent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/pkg/decide/clustermanifest"
	"github.com/drover-io/drover/pkg/testkit/crashpoints"
	"github.com/drover-io/drover/pkg/testkit/memkube"
)

// lives runs an agent's life: its manifest is made, deleted and recreated, and the agent is updated for a new release
// and a new environment.
func lives(w *world) {
	w.Helper()
	w.add(token(), controlPlane(false))
	w.elapse(time.Minute)
	must(w.T, w.user.Core.Secret().Delete(fleet, "demo-cluster-agent", &metav1.DeleteOptions{}))
	w.elapse(time.Minute)
	w.installed(map[string]string{clustermanifest.DigestAnnotation: "of another release"})
	w.agents.set(true)
	w.elapse(time.Minute)
	edited, err := w.user.Management.Cluster().Get(id, metav1.GetOptions{})
	must(w.T, err)
	edited.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy"}}
	_, err = w.user.Management.Cluster().Update(edited)
	must(w.T, err)
	w.elapse(time.Minute)
}

// objects returns every object that the process writes, in the management API and in the cluster, without what differs
// between runs.
func (w *world) objects() map[string]any {
	objects := w.api.Objects(corev1.SchemeGroupVersion.WithKind("Secret"))
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "Secret"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	} {
		objects = append(objects, w.agents.cluster.Objects(kind)...)
	}
	return crashpoints.Bare(append([]*unstructured.Unstructured{}, objects...))
}

// The agent gets the right objects, in the management API and in its cluster, wherever the process is killed, and then
// nothing more is written.
func TestStory_AgentWhereverTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	for name, side := range map[string]struct {
		of   func(*world) *memkube.Server
		name string
	}{
		"between writes in the management cluster": {func(w *world) *memkube.Server { return w.api }, agent},
		"between writes in the cluster": {func(w *world) *memkube.Server { return w.agents.cluster },
			inside},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want map[string]any
			crashpoints.Each(t, 6, func(t *testing.T, n int) (writes int) {
				t.Helper()
				inWorld(t, func(w *world) {
					if n > 0 {
						w.cut = make(chan struct{})
						side.of(w).CutAfter(side.name, n, func() { close(w.cut) })
					}
					lives(w)
					writes = side.of(w).Written(side.name)
					w.elapse(time.Minute) // restarts the controller if it was killed at the very end
					w.api.ResetLog()
					w.agents.cluster.ResetLog()
					w.elapse(time.Hour)
					if late := append(w.api.Writes(agent), w.agents.cluster.Writes(inside)...); len(late) > 0 {
						w.Errorf("killed after write %d: writes in an hour without changes: %v", n, late)
					}
					got := w.objects()
					if want == nil {
						want = got
					}
					if diff := cmp.Diff(want, got); diff != "" {
						w.Errorf("killed after write %d, the outcome differs (-never killed +killed):\n%s", n, diff)
					}
				})
				return writes
			})
		})
	}
}
