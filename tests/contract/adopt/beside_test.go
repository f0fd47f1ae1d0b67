package adopt

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/pkg/testkit/recorded"
	"github.com/drover-io/drover/tests/contract/plane"
)

// TestAdopt_ClaimsNothingBesideRancher starts Drover next to Rancher. Rancher has its local cluster, an imported one
// and an unfinished one. A user has just applied two more, one to create and one to import. Drover claims only these
// two, and only once Rancher is gone.
func TestAdopt_ClaimsNothingBesideRancher(t *testing.T) {
	install(t)
	w := newWorld(t)
	made := w.makeAll([]*unstructured.Unstructured{
		theirs("local", nil, "local"), theirs("imported", nil, "c-m-imported"), theirs("importing", nil, ""),
		theirs("unfinished", map[string]any{}, "c-m-unfinished"), theirs("new", map[string]any{}, ""),
	})
	now, holder, hour := metav1.NowMicro(), "rancher-1", int32(3600)
	leases := w.kube.CoordinationV1().Leases("kube-system")
	_, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "cattle-controllers"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseDurationSeconds: &hour},
	}, metav1.CreateOptions{})
	check(t, err)
	w.startDrover()
	w.writesNothing()

	check(t, leases.Delete(t.Context(), "cattle-controllers", metav1.DeleteOptions{}))
	plane.Until(t, 2*time.Minute, func() string {
		if marks := w.marks(made); marks["new"] != "adopter" || marks["importing"] != "adopter" {
			return fmt.Sprintf("without Rancher, these new clusters are not claimed: %v", marks)
		}
		return ""
	})
	for name, mark := range w.marks(made) {
		if name != "new" && name != "importing" && mark != "" {
			t.Errorf("cluster %s is claimed by %s", name, mark)
		}
	}
}

// theirs returns a Cluster without children.
func theirs(name string, config any, clusterName string) *unstructured.Unstructured {
	spec := map[string]any{}
	if config != nil {
		spec = map[string]any{"kubernetesVersion": "v1.36.2+k3s1", "rkeConfig": config}
	}
	object := map[string]any{"spec": spec}
	if clusterName != "" {
		object["status"] = map[string]any{"clusterName": clusterName}
	}
	cluster := &unstructured.Unstructured{Object: object}
	cluster.SetAPIVersion("provisioning.cattle.io/v1")
	cluster.SetKind("Cluster")
	cluster.SetNamespace(fleet)
	cluster.SetName(name)
	return cluster
}

// makeAll creates objects. At the end of the test it removes them by force.
func (w *world) makeAll(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	w.Helper()
	w.namespace()
	w.Cleanup(func() { w.takeAway(objects) })
	made, err := recorded.Create(w.Context(), w.live, objects)
	check(w.T, err)
	w.since = time.Now()
	return made
}

// marks returns the instance marks of clusters by name.
func (w *world) marks(made []*unstructured.Unstructured) map[string]string {
	w.Helper()
	out := map[string]string{}
	for _, object := range made {
		live, err := w.client(object).Get(w.Context(), object.GetName(), metav1.GetOptions{})
		check(w.T, err)
		out[object.GetName()] = live.GetAnnotations()["drover.io/instance"]
	}
	return out
}
