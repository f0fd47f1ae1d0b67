package rkecontrolplane

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// reasonOverdue means that an object does not go away and needs a person's attention.
const reasonOverdue = "DeletionOverdue"

// report sets condition Removed to the server that the removal waits for. User interfaces and scripts read the texts.
// (docs/wire/capi.md#deletion.)
func (h *handler) report(controlPlane *rkev1.RKEControlPlane, server *clusterv1.Machine) (*rkev1.RKEControlPlane,
	error) {
	now := h.Now()
	waiting := outcome.Wait("", "waiting for machine ["+server.Name+"] to delete", "Machine")
	var end error = waiting
	if !server.DeletionTimestamp.IsZero() {
		if left := server.DeletionTimestamp.Add(h.DeletionDeadline).Sub(now); left > 0 {
			waiting.After = left
		} else {
			end = outcome.Stall(reasonOverdue, waiting.Message+
				": the deletion is overdue; the condition Deleting and the finalizers of the Machine show what "+
				"delays it")
		}
	}
	status := controlPlane.Status.DeepCopy()
	for _, conditionType := range []string{
		rkev1.ConditionProvisioned, rkev1.ConditionWaiting, rkev1.ConditionPending, rkev1.ConditionUpdated,
	} {
		conditions.Set(&status.Conditions, conditions.Condition{Type: conditionType, Status: rkev1.ConditionTrue}, now)
	}
	condition, retry := outcome.Conclude(rkev1.ConditionRemoved, end)
	conditions.Set(&status.Conditions, condition, now)
	if retry.After > 0 {
		h.ControlPlanes.EnqueueAfter(controlPlane.Namespace, controlPlane.Name, retry.After)
	}
	if equality.Semantic.DeepEqual(&controlPlane.Status, status) {
		return controlPlane, nil
	}
	changed := controlPlane.DeepCopy()
	changed.Status = *status
	updated, err := h.ControlPlanes.UpdateStatus(changed)
	if err != nil {
		return controlPlane, fmt.Errorf("write status of control plane %s/%s: %w", controlPlane.Namespace,
			controlPlane.Name, err)
	}
	h.written.Wrote(controlPlane, updated, now)
	return updated, nil
}
