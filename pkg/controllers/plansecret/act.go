package plansecret

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// decision is what a report means.
type decision struct {
	// probesPassed: all probes of the plan pass.
	probesPassed bool
	// condition is PlanApplied for the Machine, zero when there is nothing to say yet.
	condition planner.Condition
}

// decide is a function of the report alone.
func decide(v *view) decision {
	d := decision{probesPassed: v.state.PlanExists && v.state.InSync && probesPass(&v.state)}
	switch {
	case !v.state.PlanExists:
	case failedForGood(&v.state):
		d.condition = planner.Condition{Status: corev1.ConditionFalse, Reason: rkev1.ReasonError, Message: failure(v.unit)}
	case v.state.InSync:
		d.condition = planner.Condition{Status: corev1.ConditionTrue, Reason: rkev1.ConditionPlanApplied}
	}
	return d
}

// probesPass reports that every probe of the plan has a report and is healthy.
func probesPass(s *nodeplan.State) bool {
	for name := range s.Plan.Probes {
		if !s.ProbeStatuses[name].Healthy {
			return false
		}
	}
	return true
}

// failedForGood reports a failure that is worth telling: the agent has given up or has no limit, or the server says what is enough.
func failedForGood(s *nodeplan.State) bool {
	if s.Phase == nodeplan.PhaseFailed {
		return true
	}
	threshold := s.FailureThreshold > 0 && s.FailureCount >= s.FailureThreshold
	return s.FailedChecksum == s.Checksum && (s.MaxFailures == nodeplan.NoLimit || s.FailureCount == s.MaxFailures || threshold)
}

// failure is the message of a failed plan. Users and their scripts know it.
func failure(unit string) string {
	if unit == "" {
		return "error applying plan -- check rancher-system-agent.service logs on node for more information"
	}
	return "error applying plan -- check rancher-system-agent.service and " + unit + ".service logs on node for more information"
}

// act writes the meaning down: into the secret, and onto the Machine. Conflicts wait for the newer object's event.
func (h *handler) act(secret *corev1.Secret, v *view, d decision) error {
	_, err := h.plans.NoteReport(secret, d.probesPassed, h.Now())
	if apierrors.IsConflict(err) {
		err = nil
	}
	if d.condition == (planner.Condition{}) || d.condition == v.applied {
		return err
	}
	_, machineErr := h.MachineStore.SetCondition(v.machine, rkev1.ConditionPlanApplied, d.condition, h.Now())
	if apierrors.IsNotFound(machineErr) || apierrors.IsConflict(machineErr) {
		machineErr = nil
	}
	return errors.Join(err, machineErr)
}
