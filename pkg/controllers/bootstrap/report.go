package bootstrap

import (
	"fmt"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// report tells Cluster API that the machine may be made. It is never taken back.
func (h *handler) report(bootstrap *rkev1.RKEBootstrap) (*rkev1.RKEBootstrap, error) {
	name := namesOf(bootstrap.Name).bootstrap
	status := bootstrap.Status
	if status.DataSecretName != nil && *status.DataSecretName == name &&
		status.Initialization.DataSecretCreated != nil && *status.Initialization.DataSecretCreated {
		return bootstrap, nil
	}
	next := bootstrap.DeepCopy()
	next.Status.DataSecretName = &name
	next.Status.Initialization.DataSecretCreated = new(true)
	updated, err := h.Bootstraps.UpdateStatus(next)
	if err != nil {
		return bootstrap, fmt.Errorf("write status of RKEBootstrap %s/%s: %w", bootstrap.Namespace, bootstrap.Name, err)
	}
	h.written.Replaced(bootstrap.UID, bootstrap.ResourceVersion, h.Now())
	return updated, nil
}
