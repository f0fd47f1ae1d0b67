package clusterctl

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/tests/charts"
	"github.com/drover-io/drover/tests/contract/plane"
)

// TestExtraProviders: the embedded core gets the rights on other providers that rbac.extraProviders names, and those of
// roles that providers bring. It gets no others.
func TestExtraProviders(t *testing.T) {
	admin := newClient(t)
	// The release has a name of its own, because other tests of this package install Drover too.
	objects, err := charts.Objects(filepath.Join(plane.Root(t), "charts", "drover"), charts.Release{Name: "other"},
		map[string]any{
			"server": map[string]any{"url": "https://drover.test"},
			"rbac":   map[string]any{"extraProviders": []any{map[string]any{"apiGroup": "metal.example.com"}}},
		})
	check(t, err)
	for _, object := range objects {
		if object.GetKind() == "ClusterRole" || object.GetKind() == "ClusterRoleBinding" {
			check(t, admin.Create(t.Context(), object))
		}
	}
	check(t, admin.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "provider-of-boats",
			Labels: map[string]string{"cluster.x-k8s.io/aggregate-to-manager": "true"}},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"boats.example.com"}, Resources: []string{"boatmachines"},
			Verbs: []string{"patch"}}},
	}))
	for resource, want := range map[authorizationv1.ResourceAttributes]bool{
		{Group: "metal.example.com", Resource: "metalmachinetemplates", Verb: "get"}: true,
		{Group: "metal.example.com", Resource: "metalmachines", Verb: "delete"}:      true,
		{Group: "boats.example.com", Resource: "boatmachines", Verb: "patch"}:        true,
		{Group: "boats.example.com", Resource: "boatmachines", Verb: "delete"}:       false,
		{Group: "other.example.com", Resource: "othermachines", Verb: "patch"}:       false,
	} {
		plane.Until(t, time.Minute, func() string { return allowed(t, admin, resource, want) })
	}
}

// allowed compares what the account of the release may do.
func allowed(t *testing.T, admin client.Client, resource authorizationv1.ResourceAttributes, want bool) string {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:drover-system:other-drover", ResourceAttributes: &resource,
	}}
	check(t, admin.Create(t.Context(), review))
	if review.Status.Allowed != want {
		return fmt.Sprintf("%s %s.%s is allowed: %t", resource.Verb, resource.Resource, resource.Group, !want)
	}
	return ""
}
