package clusterregistrationtoken

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
)

// report writes the status if it changed.
func (h *handler) report(token *mgmtv3.ClusterRegistrationToken,
	status mgmtv3.ClusterRegistrationTokenStatus) (*mgmtv3.ClusterRegistrationToken, error) {
	if equality.Semantic.DeepEqual(token.Status, status) {
		return token, nil
	}
	changed := token.DeepCopy()
	changed.Status = status
	updated, err := h.Tokens.UpdateStatus(changed)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return token, nil // its event follows; another controller records hosts in the same status
	}
	if err != nil {
		return token, fmt.Errorf("write status of ClusterRegistrationToken %s/%s: %w", token.Namespace, token.Name, err)
	}
	h.written.Replaced(token.UID, token.ResourceVersion, h.Now())
	return updated, nil
}
