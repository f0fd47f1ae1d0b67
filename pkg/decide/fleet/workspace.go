package fleet

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
)

// WorkspaceAdmin is the ClusterRole that the creator of a FleetWorkspace gets in its namespace. An administrator
// creates it.
const WorkspaceAdmin = "fleetworkspace-admin"

// WorkspaceKinds are the kinds of the objects of a FleetWorkspace.
func WorkspaceKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Namespace"),
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
	}
}

// IsManaged reports whether Drover manages the namespace of a FleetWorkspace.
func IsManaged(workspace *mgmtv3.FleetWorkspace) bool {
	return !strings.EqualFold(workspace.Annotations[provv1.ManagedAnnotation], "false")
}

// WorkspaceNamespace returns the namespace of a FleetWorkspace.
func WorkspaceNamespace(workspace *mgmtv3.FleetWorkspace) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: workspace.Name, Labels: cleaned(workspace.Labels),
			Annotations: cleaned(workspace.Annotations)},
	}
}

// WorkspaceObjects returns the objects of a FleetWorkspace: the namespace, and the rights of its creator.
// (docs/wire/fleet.md#workspaces.)
func WorkspaceObjects(workspace *mgmtv3.FleetWorkspace) []runtime.Object {
	objects := []runtime.Object{WorkspaceNamespace(workspace)}
	creator := workspace.Annotations[provv1.CreatorIDAnnotation]
	if creator == "" || workspace.Annotations[provv1.NoCreatorRBACAnnotation] == "true" {
		return objects
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: creator}}
	owned := metav1.ObjectMeta{Name: "fleetworkspace-own-" + workspace.Name}
	return append(objects,
		&rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Namespace: workspace.Name,
				Name: "fleetworkspace-admin-binding-" + workspace.Name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: WorkspaceAdmin},
			Subjects: subjects,
		},
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: owned,
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{mgmtv3.SchemeGroupVersion.Group}, Resources: []string{"fleetworkspaces"},
				ResourceNames: []string{workspace.Name},
				// All verbs on one object. Drover can grant only those that it has itself.
				Verbs: []string{"get", "list", "watch", "update", "patch", "delete"},
			}},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: "fleetworkspace-own-binding-" + workspace.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: owned.Name},
			Subjects:   subjects,
		},
	)
}

// AdoptedWorkspace returns the FleetWorkspace of a namespace that holds objects of Fleet and has none. Drover does not
// manage the namespace, and the FleetWorkspace ends with it.
func AdoptedWorkspace(namespace *corev1.Namespace) *mgmtv3.FleetWorkspace {
	return &mgmtv3.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace.Name, Annotations: map[string]string{provv1.ManagedAnnotation: "false"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name,
			UID: namespace.UID}},
	}}
}

// named is how many clusters a message names.
const named = 5

// Holders joins the names of the clusters of a workspace, sorted and each once. It names a few and counts the others.
func Holders(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if more := len(names) - named; more > 0 {
		return strings.Join(names[:named], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
