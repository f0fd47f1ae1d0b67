package clusterregistrationtoken

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/pkg/decide/registration"
)

// act writes the Secret if it differs from the decision, and reports whether it is now up to date. It returns false if
// the cache is behind.
func (h *handler) act(facts *registration.Facts, decided registration.Decision) (bool, error) {
	if decided.Secret == nil {
		return true, nil
	}
	write := h.Secrets.Update
	if facts.Secret == nil {
		write = h.Secrets.Create
	}
	_, err := write(decided.Secret)
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return false, nil
	case facts.Secret != nil && apierrors.IsNotFound(err),
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write secret %s/%s: %w", decided.Secret.Namespace, decided.Secret.Name, err)
	}
	if facts.Secret == nil {
		h.written.Did(decided.Secret.Namespace+"/"+decided.Secret.Name, h.Now())
	} else {
		h.written.Replaced(facts.Secret.UID, facts.Secret.ResourceVersion, h.Now())
	}
	if decided.Event != "" {
		h.Log.WithField("namespace", decided.Secret.Namespace).WithField("secret",
			decided.Secret.Name).Infof("Registration token was %s", decided.Event)
	}
	return true, nil
}
