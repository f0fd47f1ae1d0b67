package unmanaged

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// report marks the host as ready from the start, and as provisioned once its node is known. It never reverts either.
func (h *handler) report(machine *rkev1.CustomMachine) (*rkev1.CustomMachine, error) {
	changed := machine.DeepCopy()
	conditions.Set(&changed.Status.Conditions,
		conditions.Condition{Type: rkev1.ConditionReady, Status: rkev1.ConditionTrue}, h.Now())
	if machine.Spec.ProviderID != "" {
		changed.Status.Initialization.Provisioned, changed.Status.Ready = new(true), true
	}
	if equality.Semantic.DeepEqual(machine.Status, changed.Status) {
		return machine, nil
	}
	return h.writeStatus(machine, changed)
}

func (h *handler) writeStatus(machine, changed *rkev1.CustomMachine) (*rkev1.CustomMachine, error) {
	updated, err := h.CustomMachines.UpdateStatus(changed)
	if isStale(err) {
		return machine, nil // an event follows
	}
	if err != nil {
		return machine, fmt.Errorf("write status of CustomMachine %s/%s: %w", machine.Namespace, machine.Name, err)
	}
	h.written.Replaced(machine.UID, machine.ResourceVersion, h.Now())
	return updated, nil
}
