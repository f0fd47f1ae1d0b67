package credential

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/naming"
)

// permit makes the Role and the RoleBinding, under the first name that others do not use.
func (h *handler) permit(secret *corev1.Secret, creator string) error {
	for _, name := range []string{naming.CredentialRole(creator, secret.Name),
		naming.CredentialRole(creator, secret.Name+"-"+naming.SHA256(string(secret.UID))[:8])} {
		done, err := h.permitAs(name, secret, creator)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("other Roles or RoleBindings have the names that begin with %s", naming.CredentialRole(creator,
		secret.Name))
}

// permitAs returns false if another object has the name.
func (h *handler) permitAs(name string, secret *corev1.Secret, creator string) (bool, error) {
	role, binding := objects(name, secret, creator)
	made, err := h.Roles.Create(role)
	if apierrors.IsAlreadyExists(err) {
		made, err = h.Roles.Get(role.Namespace, name, metav1.GetOptions{})
	}
	if err != nil {
		return false, fmt.Errorf("create Role %s: %w", name, err)
	}
	if !belongs(made, secret) || !equality.Semantic.DeepEqual(made.Rules, role.Rules) {
		return false, nil
	}
	bound, err := h.RoleBindings.Create(binding)
	if apierrors.IsAlreadyExists(err) {
		bound, err = h.RoleBindings.Get(role.Namespace, name, metav1.GetOptions{})
	}
	if err != nil {
		return false, fmt.Errorf("create RoleBinding %s: %w", name, err)
	}
	return belongs(bound, secret) && bound.RoleRef == binding.RoleRef &&
		equality.Semantic.DeepEqual(bound.Subjects, binding.Subjects), nil
}

func belongs(object metav1.Object, secret *corev1.Secret) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return ref.UID == secret.UID
	})
}

// objects returns what gives the creator permissions. (docs/wire/secrets.md#cloud-credentials.)
func objects(name string, secret *corev1.Secret, creator string) (*rbacv1.Role, *rbacv1.RoleBinding) {
	meta := metav1.ObjectMeta{Namespace: secret.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID,
	}}}
	return &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret.Name},
			Verbs: []string{"get", "update", "delete"},
		}}}, &rbacv1.RoleBinding{
			ObjectMeta: *meta.DeepCopy(),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: creator}},
		}
}

// forget is a patch that removes the annotation of this Secret, if it still names the creator.
func forget(secret *corev1.Secret, creator string) ([]byte, error) {
	path := "/metadata/annotations/" + strings.ReplaceAll(provv1.CreatorIDAnnotation, "/", "~1")
	return json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": secret.UID},
		{"op": "test", "path": path, "value": creator},
		{"op": "remove", "path": path},
	})
}
