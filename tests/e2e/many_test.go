package e2e

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestManyNodes creates and uses a cluster of three servers and two workers. Every server is a member of etcd and has
// an API server.
func TestManyNodes(t *testing.T) {
	w := newWorld(t, "many")
	w.eventually("the control plane's objects in every namespace", w.namespacesAreComplete)
	before := w.apiInventory()
	must(t, w.Apply(t.Context(), manifest("many", "v1.36.3+rke2r1", pool{"server", 3, "ec"}, pool{"worker", 2, "w"})))
	w.awaitReady("many")
	w.expectRoles("many", []string{"etcd+api", "etcd+api", "etcd+api", "worker", "worker"})
	w.deleteCluster("many")
	awaitSame(t, "the API", before, w.apiInventory)
}

// TestSplitRoles creates a cluster whose servers have one role each.
func TestSplitRoles(t *testing.T) {
	w := newWorld(t, "split")
	must(t, w.Apply(t.Context(), manifest("split", "v1.36.3+rke2r1", pool{"etcd", 3, "e"}, pool{"api", 2, "c"},
		pool{"worker", 1, "w"})))
	w.awaitReady("split")
	w.expectRoles("split", []string{"api", "api", "etcd", "etcd", "etcd", "worker"})
}

// expectRoles compares the roles of a cluster's nodes, in order.
func (w *world) expectRoles(cluster string, want []string) {
	w.t.Helper()
	nodes, err := w.downstream(cluster).CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	must(w.t, err)
	var got []string
	for i := range nodes.Items {
		labels := nodes.Items[i].Labels
		etcd, api := labels["node-role.kubernetes.io/etcd"] != "", labels["node-role.kubernetes.io/control-plane"] != ""
		switch {
		case etcd && api:
			got = append(got, "etcd+api")
		case etcd:
			got = append(got, "etcd")
		case api:
			got = append(got, "api")
		default:
			got = append(got, "worker")
		}
	}
	slices.Sort(got)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("roles of the nodes: %v, want %v", got, want)
	}
}
