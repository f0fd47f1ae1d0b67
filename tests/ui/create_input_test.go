package ui

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestUICreateInput makes mistakes in the form of a new cluster and in its manifest. The page says each at its place.
// Then it creates a cluster of existing hosts, whose page gives the command for them. Users with fewer permissions see
// what they lack.
func TestUICreateInput(t *testing.T) {
	st := stage.Start(t, stage.Settings{UI: true})
	namespace := plane.Namespace(t)
	st.Cluster(namespace, "taken", stage.K3s, stage.Pool("server", "ecw", 1))
	bareDriver(t, st)
	browse(t, "create-input", map[string]string{
		"URL": st.URL, "NAMESPACE": namespace, "VERSION": stage.K3s, "TOKEN": administrator(t, namespace),
		"EDITOR": editor(t, namespace), "VIEWER": viewer(t, namespace, "viewer"),
	}, nil)
	clusters := &provv1.ClusterList{}
	check(t, st.Client.List(t.Context(), clusters, client.InNamespace(namespace)))
	var names []string
	for i := range clusters.Items {
		names = append(names, clusters.Items[i].Name)
	}
	slices.Sort(names)
	if want := []string{"edge", "of-editor", "taken"}; !slices.Equal(names, want) {
		t.Errorf("the namespace has clusters %v, want %v", names, want)
	}
}

// bareDriver registers a driver whose program does not exist, so that its fields stay unknown.
func bareDriver(t *testing.T, st *stage.Stage) {
	t.Helper()
	driver := &mgmtv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "bare"},
		Spec: mgmtv3.NodeDriverSpec{Active: true, DisplayName: "bare", URL: "https://127.0.0.1:1/driver",
			Checksum: strings.Repeat("0", sha256.Size*2)}}
	check(t, st.Client.Create(t.Context(), driver))
	t.Cleanup(func() {
		if err := st.Client.Delete(context.WithoutCancel(t.Context()), driver); err != nil {
			t.Errorf("remove the driver: %v", err)
		}
	})
}

// editor returns a token of an account that may read the objects that the UI shows, and change clusters, in one
// namespace. It may not list credentials or drivers.
func editor(t *testing.T, namespace string) string {
	t.Helper()
	const name = "editor"
	rbac := kube(t).RbacV1()
	_, err := rbac.Roles(namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "change-clusters"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"provisioning.cattle.io"}, Resources: []string{"clusters"},
			Verbs: []string{"create", "update"}}},
	}, metav1.CreateOptions{})
	check(t, err)
	_, err = rbac.RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "change-clusters"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "change-clusters"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}, metav1.CreateOptions{})
	check(t, err)
	return viewer(t, namespace, name)
}
