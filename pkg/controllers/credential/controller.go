package credential

import (
	"context"
	"fmt"
	"time"

	corecontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/core/v1"
	rbaccontrollers "github.com/rancher/wrangler/v3/pkg/generated/controllers/rbac/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
	"github.com/drover-io/drover/pkg/kube/rival"
)

// handlerName is in metrics, do not change.
const handlerName = "cloud-credential"

// Deps holds the controller's dependencies.
type Deps struct {
	Secrets      corecontrollers.SecretController
	Roles        rbaccontrollers.RoleController
	RoleBindings rbaccontrollers.RoleBindingController
	// Rival returns which other manager runs here, "" without one; see package rival. It gives the permissions itself.
	Rival rival.Check
}

// rivalRetry is the retry delay while another manager runs, because its end causes no event.
const rivalRetry = time.Minute

type handler struct {
	Deps
	ctx context.Context // handlers get no context
}

// Register adds the handler. It ends with ctx.
func Register(ctx context.Context, d Deps) error {
	h := &handler{d, ctx}
	d.Secrets.OnChange(clients.Only(ctx, hasCreator), handlerName, h.onChange)
	return nil
}

// hasCreator reports whether the creator of a cloud credential has no permissions yet.
func hasCreator(secret *corev1.Secret) bool {
	_, none := secret.Annotations[provv1.NoCreatorRBACAnnotation]
	return secret.Type == provv1.SecretTypeCloudCredential && secret.DeletionTimestamp == nil &&
		secret.Annotations[provv1.CreatorIDAnnotation] != "" && !none
}

// onChange writes the Role first, and removes the annotation last. It can be killed after any write.
func (h *handler) onChange(_ string, secret *corev1.Secret) (*corev1.Secret, error) {
	if secret == nil || !hasCreator(secret) {
		return secret, nil
	}
	if other, err := h.Rival.Running(h.ctx); err != nil || other != "" {
		h.Secrets.EnqueueAfter(secret.Namespace, secret.Name, rivalRetry)
		return secret, err
	}
	creator := secret.Annotations[provv1.CreatorIDAnnotation]
	if err := h.permit(secret, creator); err != nil {
		return secret, fmt.Errorf("give the creator of Secret %s/%s permissions: %w", secret.Namespace, secret.Name,
			err)
	}
	patch, err := forget(secret, creator)
	if err != nil {
		return secret, err
	}
	updated, err := h.Secrets.Patch(secret.Namespace, secret.Name, types.JSONPatchType, patch)
	if apierrors.IsNotFound(err) {
		return secret, nil
	}
	if err != nil {
		return secret, fmt.Errorf("remove annotation %s of Secret %s/%s: %w", provv1.CreatorIDAnnotation,
			secret.Namespace, secret.Name, err)
	}
	return updated, nil
}
