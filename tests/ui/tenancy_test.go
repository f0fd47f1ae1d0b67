package ui

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestUITenancy signs in as two users. The one with permissions in another namespace sees nothing of a cluster. The one
// who may only read it sees it and cannot change it, neither on the page nor with requests of their own.
func TestUITenancy(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true})
	ours, theirs := plane.Namespace(t), plane.Namespace(t)
	st.Cluster(ours, "secret-plans", stage.K3s, stage.Pool("server", "ecw", 1))
	plane.Until(t, clusterTime, func() string { return st.WaitingFor(ours, "secret-plans") })
	before := specOf(t, st, ours)
	env := map[string]string{"URL": st.URL, "OURS": ours, "THEIRS": theirs,
		"VIEWER": viewer(t, ours, "viewer"), "STRANGER": viewer(t, theirs, "stranger")}
	browse(t, "tenancy", env, nil)
	if diff := cmp.Diff(before, specOf(t, st, ours)); diff != "" {
		t.Errorf("the viewer changed the cluster (-before +after):\n%s", diff)
	}
}

func specOf(t *testing.T, st *stage.Stage, namespace string) provv1.ClusterSpec {
	t.Helper()
	cluster := &provv1.Cluster{}
	check(t, st.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "secret-plans"}, cluster))
	return cluster.Spec
}
