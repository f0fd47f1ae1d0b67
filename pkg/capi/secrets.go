package capi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/pkg/proxy"
)

// harmless reads Secrets with kubeconfigs, and gives none that would have this process read its own files: Cluster API takes a kubeconfig
// as it is, and whoever may write Secrets in a cluster's namespace may write that one.
type harmless struct{ client.Reader }

// Get implements client.Reader.
func (h harmless) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := h.Reader.Get(ctx, key, obj, opts...); err != nil {
		return err //nolint:wrapcheck // it is the answer of the reader
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil
	}
	if err := proxy.Harmless(secret.Data[proxy.KubeconfigKey]); err != nil {
		*secret = corev1.Secret{}
		return fmt.Errorf("kubeconfig in Secret %s cannot be used: %w", key, err)
	}
	return nil
}
