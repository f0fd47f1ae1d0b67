package bootstrap

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// Rehearse runs the handlers once for a machine. With Deps from a stage (package rehearsal), they only list what they
// would write.
func Rehearse(ctx context.Context, d Deps, bootstrap *rkev1.RKEBootstrap) error {
	h := newHandler(ctx, d)
	current, err := h.onChange(bootstrap.Namespace+"/"+bootstrap.Name, bootstrap)
	if current == nil {
		return err
	}
	h = newHandler(ctx, d)           // the cache shows what was written
	h.patience = 0                   // the handlers do not run long enough to see that the cluster stays silent
	_, hook := h.onHook("", current) //nolint:contextcheck // the handler has it
	token, missing := clients.Optional(h.secrets.Get(bootstrap.Namespace, namesOf(bootstrap.Name).token))
	return errors.Join(err, hook, missing, h.rehearseToken(token))
}

func (h *handler) rehearseToken(token *corev1.Secret) error {
	_, err := h.onToken("", token)
	return err
}
