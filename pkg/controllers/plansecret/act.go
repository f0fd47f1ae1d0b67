package plansecret

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/planstore"
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
// What merely succeeded may wait for the next write of the same object.
func (h *handler) act(secret *corev1.Secret, v *view, d decision) error {
	wait, err := h.actOnSecret(secret, d)
	left, machineErr := h.actOnMachine(v, d)
	if wait = soonest(wait, left); wait > 0 {
		h.Secrets.EnqueueAfter(secret.Namespace, secret.Name, wait)
	}
	return errors.Join(err, machineErr)
}

// actOnSecret returns how long the copy of the plan may wait for the probes: when they pass, the Secret is written
// anyway.
func (h *handler) actOnSecret(secret *corev1.Secret, d decision) (time.Duration, error) {
	noted := secret.Annotations[rkev1.PlanProbesPassedAnnotation] != ""
	if _, changed := nodeplan.Applied(secret.Data); changed && !noted && !d.probesPassed {
		if left := h.copies.Left(secret.UID, h.Now()); left > 0 {
			return left, nil
		}
	}
	stored, err := h.plans.NoteReport(secret, d.probesPassed, h.Now())
	h.copies.End(secret.UID)
	if stored != nil {
		h.written.Replaced(secret, stored, h.Now())
	}
	if apierrors.IsConflict(err) {
		err = nil
	}
	return 0, err
}

// actOnMachine returns how long the condition may wait for the planner, which mostly changes another condition after
// the same report. A failure and its end do not wait, because the planner reads them. Without a change, a former
// proposal is withdrawn.
func (h *handler) actOnMachine(v *view, d decision) (left time.Duration, err error) {
	want := planstore.Conditions{}
	if d.condition != (planner.Condition{}) && d.condition != v.applied {
		want[rkev1.ConditionPlanApplied] = d.condition
	}
	turned := d.condition.Status == corev1.ConditionFalse || v.applied.Status == corev1.ConditionFalse
	if len(want) > 0 && (turned || h.atOnce) {
		_, err = h.MachineStore.SetConditions(v.machine, want, h.Now())
	} else {
		left, err = h.MachineStore.Propose(v.machine, want, h.Now())
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil
	}
	return left, err
}

// soonest returns the shorter of two times, zero for none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}
