package plansecret

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
)

// decision is the meaning of a report.
type decision struct {
	// probesPassed means that all probes of the plan pass.
	probesPassed bool
	// condition is the Machine's PlanApplied, zero while it is unknown.
	condition planner.Condition
}

// decide depends on the report alone.
func decide(v *view) decision {
	d := decision{probesPassed: v.state.PlanExists && v.state.InSync && probesPass(&v.state)}
	switch {
	case !v.state.PlanExists:
	case failedForGood(&v.state):
		d.condition = planner.Condition{Status: corev1.ConditionFalse, Reason: rkev1.ReasonError,
			Message: failure(v.unit)}
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

// failedForGood reports a failure to show: the agent gave up or retries without a limit, or the failures reached the
// server's threshold.
func failedForGood(s *nodeplan.State) bool {
	if s.Phase == nodeplan.PhaseFailed {
		return true
	}
	threshold := s.FailureThreshold > 0 && s.FailureCount >= s.FailureThreshold
	return s.FailedChecksum == s.Checksum && (s.MaxFailures == nodeplan.NoLimit || s.FailureCount == s.MaxFailures ||
		threshold)
}

// failure returns the message of a failed plan. Users and their scripts depend on its text.
func failure(unit string) string {
	if unit == "" {
		return "error applying plan -- check rancher-system-agent.service logs on node for more information"
	}
	return "error applying plan -- check rancher-system-agent.service and " + unit +
		".service logs on node for more information"
}

// act records the decision in the Secret and on the Machine. After a conflict, the event of the newer object retries.
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
