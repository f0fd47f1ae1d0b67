package tenancy

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/tests/contract/plane"
	"github.com/drover-io/drover/tests/contract/stage"
)

// TestCredentialRights: a user who may only create Secrets can use the cloud credential that this user creates, and no
// other Secret. A tenant cannot name another user as creator, or become the creator of an existing Secret.
func TestCredentialRights(t *testing.T) {
	st, namespace := stage.Start(t, stage.Settings{Admission: true}), plane.Namespace(t)
	check(t, st.Client.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "creates"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"},
			Verbs: []string{"create"}}},
	}))
	check(t, st.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "creates"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "creates"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "carol"}},
	}))
	config := plane.Config(t, "tenant-carol")
	config.Impersonate = rest.ImpersonationConfig{UserName: "carol", Groups: []string{"system:authenticated"}}
	carol, err := client.New(config, client.Options{Scheme: st.Client.Scheme()})
	check(t, err)
	w := &creators{t, st, namespace, carol, tenant(t, st, "dave", namespace)}
	w.awaitAdmission()
	w.creates()
	w.forges()
}

// creators are two users: carol may only create Secrets, and dave has the rights of a tenant.
type creators struct {
	*testing.T
	st          *stage.Stage
	namespace   string
	carol, dave client.Client
}

const creatorID = "field.cattle.io/creatorId"

func (w *creators) secret(name, creator string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Type: "provisioning.cattle.io/cloud-credential",
		Data: map[string][]byte{"simcredentialConfig-token": []byte("t")}}
	if creator != "" {
		secret.Annotations = map[string]string{creatorID: creator}
	}
	return secret
}

// awaitAdmission waits until the API server calls the webhook, and evaluates the policy.
func (w *creators) awaitAdmission() {
	w.Helper()
	plane.Until(w.T, time.Minute, func() string {
		probe := w.secret("probe", "")
		if err := w.dave.Create(w.Context(), probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		if probe.Annotations[creatorID] != "dave" {
			return "the API server does not call the webhook yet"
		}
		if err := w.dave.Create(w.Context(), w.secret("probe", "erin"), client.DryRunAll); err == nil {
			return "the policy is not in force yet"
		}
		return ""
	})
}

func (w *creators) creates() {
	w.Helper()
	ctx := w.Context()
	check(w.T, w.st.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace,
		Name: "other"}}))
	check(w.T, w.carol.Create(ctx, w.secret("cc-carol", "")))
	got := w.secret("cc-carol", "")
	plane.Until(w.T, time.Minute, func() string {
		if err := w.carol.Get(ctx, client.ObjectKeyFromObject(got), got); err != nil {
			return err.Error()
		}
		if got.Annotations[creatorID] != "" {
			return "the annotation is still there"
		}
		return ""
	})
	got.Data["simcredentialConfig-token"] = []byte("new")
	check(w.T, w.carol.Update(ctx, got))
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "other"}}
	if err := w.carol.Get(ctx, client.ObjectKeyFromObject(other), other); !apierrors.IsForbidden(err) {
		w.Errorf("carol gets another Secret: %v", err)
	}
	var roles rbacv1.RoleList
	check(w.T, w.st.Client.List(ctx, &roles, client.InNamespace(w.namespace)))
	for _, role := range roles.Items {
		if role.Name == "carol-cc-carol" && (len(role.OwnerReferences) != 1 || role.OwnerReferences[0].UID != got.UID) {
			w.Errorf("owners of the Role: %v", role.OwnerReferences)
		}
	}
	check(w.T, w.carol.Delete(ctx, got))
	for _, left := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		left.SetNamespace(w.namespace)
		left.SetName("carol-cc-carol")
		plane.Until(w.T, time.Minute, func() string { return w.st.Gone(left) })
	}
}

func (w *creators) forges() {
	w.Helper()
	ctx := w.Context()
	refused := func(what string, err error) {
		w.Helper()
		if !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), "metadata.annotations[field.cattle.io/creatorId]") {
			w.Errorf("%s: %v", what, err)
		}
	}
	refused("dave names erin as creator", w.dave.Create(ctx, w.secret("cc-erin", "erin")))
	existing := w.secret("cc-existing", "")
	existing.Annotations = map[string]string{"field.cattle.io/no-creator-rbac": "true"}
	check(w.T, w.st.Client.Create(ctx, existing))
	patch := `{"metadata":{"annotations":{"` + creatorID + `":"dave"}}}`
	refused("dave becomes the creator of an existing Secret",
		w.dave.Patch(ctx, existing, client.RawPatch("application/merge-patch+json", []byte(patch))))
}
