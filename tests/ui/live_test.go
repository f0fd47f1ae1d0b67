package ui

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestUILive keeps one page open. A cluster appears on it and becomes Ready. Then the connection is cut. Another
// cluster appears in the meantime, and the page shows it when the connection is back.
func TestUILive(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true})
	namespace := plane.Namespace(t)
	connection := newCable(t, st.URL)
	apply := func(name string) func() string {
		return func() string {
			st.Cluster(namespace, name, stage.K3s, stage.Pool("server", "ecw", 1))
			return ""
		}
	}
	env := map[string]string{"URL": connection.url, "TOKEN": administrator(t, namespace), "NAMESPACE": namespace}
	browse(t, "live", env, steps{
		"apply first":  apply("first"),
		"cut":          func() string { connection.cut(); return "" },
		"pause first":  func() string { setPaused(t, st, namespace, "first"); return "" },
		"apply second": apply("second"),
		"join":         func() string { connection.join(); return "" },
	})
}

// setPaused pauses a cluster, as a user does.
func setPaused(t *testing.T, st *stage.Stage, namespace, name string) {
	t.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`))
	check(t, st.Client.Patch(t.Context(), cluster, patch))
}
