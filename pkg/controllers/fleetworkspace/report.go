package fleetworkspace

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	mgmtv3 "github.com/drover-io/drover/pkg/apis/management.cattle.io/v3"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// report writes the condition, in one write and only if it changed.
func (h *handler) report(facts *Facts, workspace *mgmtv3.FleetWorkspace, decided decision, end error) (
	*mgmtv3.FleetWorkspace, error) {
	condition, retry := outcome.Conclude(mgmtv3.FleetWorkspaceConditionReady, end)
	if end == nil {
		condition.Reason, condition.Message = decided.reason, decided.message
	}
	changed := workspace.DeepCopy()
	if !outcome.Record(&changed.Status.Conditions, condition, retry, facts.now) {
		return workspace, retry.Err
	}
	updated, err := h.Workspaces.UpdateStatus(changed)
	if apierrors.IsNotFound(err) {
		return workspace, nil
	}
	if err != nil {
		return workspace, fmt.Errorf("write status of FleetWorkspace %s: %w", workspace.Name, err)
	}
	h.written.Wrote(workspace, updated, facts.now)
	return updated, retry.Err
}
