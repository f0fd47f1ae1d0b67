package planner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/conditions"
	"github.com/drover-io/drover/pkg/planner"
)

// conflictRetry is when to look again after somebody else was faster. The event that brings the newer object usually comes
// first.
const conflictRetry = time.Second

// onChange is one pass over one cluster.
func (h *handler) onChange(key string, cp *rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error) {
	if cp == nil {
		h.written.forget(key)
		return nil, nil
	}
	if cp.DeletionTimestamp != nil {
		return cp, nil
	}
	ours, err := h.ours(cp)
	if err != nil || !ours {
		return cp, err
	}
	v, err := h.gather(cp)
	if err != nil {
		return cp, err
	}
	decision := planner.Decide(v.snapshot)
	return h.carryOut(cp, v, decision)
}

// carryOut writes the ticket, acts, and reports.
func (h *handler) carryOut(cp *rkev1.RKEControlPlane, v *view, d planner.Decision) (*rkev1.RKEControlPlane, error) {
	status := d.Status
	if d.Ticket != nil {
		status.Ticket = d.Ticket
		stored, err := h.writeStatus(cp, status)
		if err != nil {
			return cp, h.retry(cp, err)
		}
		cp = stored
	}
	acted := h.act(cp, v, d)
	if message := problem(acted); message != "" {
		status.Conditions = slices.Clone(status.Conditions)
		conditions.Set(&status.Conditions, conditions.Condition{
			Type: rkev1.ConditionReady, Status: rkev1.ConditionFalse, Reason: rkev1.ReasonError, Message: message,
		}, v.snapshot.Now)
	}
	stored, err := h.writeStatus(cp, status)
	if err != nil {
		return cp, h.retry(cp, errors.Join(acted, err))
	}
	if d.Wait != nil && d.Wait.After > 0 {
		h.ControlPlanes.EnqueueAfter(cp.Namespace, cp.Name, d.Wait.After)
	}
	return stored, h.retry(stored, acted)
}

// writeStatus writes the status if it says something new, under the resource version of the object it was decided from.
func (h *handler) writeStatus(cp *rkev1.RKEControlPlane, status rkev1.RKEControlPlaneStatus) (*rkev1.RKEControlPlane, error) {
	if equality.Semantic.DeepEqual(cp.Status, status) {
		return cp, nil
	}
	update := cp.DeepCopy()
	update.Status = status
	stored, err := h.ControlPlanes.UpdateStatus(update)
	if err != nil {
		return nil, fmt.Errorf("write the status: %w", err)
	}
	h.written.note(cp.Namespace+"/"+cp.Name, kindControlPlane, stored, h.Now())
	return stored, nil
}

// retry turns what went wrong into what the queue is told: conflicts are no errors, they are looked at again.
func (h *handler) retry(cp *rkev1.RKEControlPlane, err error) error {
	if err == nil {
		return nil
	}
	if len(hard(err)) == 0 {
		h.ControlPlanes.EnqueueAfter(cp.Namespace, cp.Name, conflictRetry)
		return nil
	}
	return err
}

// problem is what users are told about a failed action: stable, and without the text of the API server.
func problem(err error) string {
	errs := hard(err)
	if len(errs) == 0 {
		return ""
	}
	reason := apierrors.ReasonForError(errs[0])
	if reason == "" {
		return "Cannot carry out the decision: " + errs[0].Error()
	}
	return "Cannot carry out the decision: the API server answered " + string(reason)
}

// hard returns the errors that are no conflicts.
func hard(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, one := range joined.Unwrap() {
			out = append(out, hard(one)...)
		}
		return out
	}
	if apierrors.IsConflict(err) {
		return nil
	}
	return []error{err}
}
