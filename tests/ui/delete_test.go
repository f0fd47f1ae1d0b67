package ui

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestUIDelete deletes a cluster on its page. A protected cluster refuses until the page ends the protection. The page
// names a finalizer of another program as what holds the deletion. After the name is typed, one request deletes the
// cluster. Its answer is lost, and the page does not repeat it. The page follows the cluster until it is gone.
func TestUIDelete(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true})
	namespace := plane.Namespace(t)
	st.Cluster(namespace, "demo", stage.K3s, stage.Pool("server", "ecw", 1))
	plane.Until(t, clusterTime, func() string { return st.WaitingFor(namespace, "demo") })
	st.Edit(namespace, "demo", func(c *provv1.Cluster) {
		c.Annotations[rkev1.ProtectAnnotation] = "true"
		c.Finalizers = append(c.Finalizers, "example.com/guard")
	})
	proxy := newTeller(t, st)
	env := map[string]string{"URL": proxy.url, "TOKEN": administrator(t, namespace), "NAMESPACE": namespace}
	browse(t, "delete", env, steps{
		"label": func() string {
			st.Edit(namespace, "demo", func(c *provv1.Cluster) { c.Labels = map[string]string{"seen": "no"} })
			return ""
		},
		"lose the answer": proxy.lose,
		"writes":          proxy.count,
		"remove guard":    func() string { removeGuard(t, st, namespace); return "" },
	})
	if t.Failed() {
		return
	}
	cluster := &provv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo"}}
	plane.Until(t, clusterTime, func() string { return st.Gone(cluster) })
}

// removeGuard removes the finalizer of another program.
func removeGuard(t *testing.T, st *stage.Stage, namespace string) {
	t.Helper()
	st.Edit(namespace, "demo", func(c *provv1.Cluster) {
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(name string) bool { return name == "example.com/guard" })
	})
}
