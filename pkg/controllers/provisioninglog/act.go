package provisioninglog

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// act writes the log once. After a conflict, the event of the other write runs the handler again.
func (h *handler) act(f Facts, d Decision) error {
	if d.Log == nil {
		return nil
	}
	write := h.ConfigMaps.Update
	if f.Log == nil {
		write = h.ConfigMaps.Create
	}
	_, err := write(d.Log)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), f.Log != nil && apierrors.IsNotFound(err),
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		return fmt.Errorf("write ConfigMap %s/%s: %w", d.Log.Namespace, d.Log.Name, err)
	case f.Log == nil:
		h.written.Did(f.Namespace, f.Now)
	default:
		h.written.Replaced(f.Log.UID, f.Log.ResourceVersion, f.Now)
	}
	return nil
}
