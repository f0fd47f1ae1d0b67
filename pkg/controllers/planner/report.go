package planner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/kube/clients"
)

// conflictRetry is the retry delay after a conflict. The event with the newer object usually comes first.
const conflictRetry = time.Second

// onChange reconciles one cluster.
func (h *handler) onChange(key string, cp *rkev1.RKEControlPlane) (*rkev1.RKEControlPlane, error) {
	if cp == nil {
		h.written.forget(key)
		h.rendered.Delete(key)
		h.Reasons.Forget(key)
		return nil, nil
	}
	if cp.DeletionTimestamp != nil {
		return cp, nil
	}
	ours, err := h.ours(cp)
	if err != nil || !ours {
		return cp, err
	}
	// This comes before gather reads the cache, because the cache may advance meanwhile.
	machinesSeen := seenUpTo(h.Machines.Informer())
	v, err := h.gather(cp)
	if dropped := new(clients.SecretDroppedError); errors.As(err, &dropped) {
		return h.reportDropped(cp, dropped)
	}
	if err != nil || v.unknown {
		return cp, err
	}
	awaitNotes(v, machinesSeen)
	decision := planner.Decide(v.snapshot)
	h.Reasons.Note(key, decision.Wait)
	return h.carryOut(cp, v, decision)
}

// reportDropped tells the user about a Secret whose data are not cached. Plans stay as they are until it changes.
func (h *handler) reportDropped(cp *rkev1.RKEControlPlane, dropped *clients.SecretDroppedError) (*rkev1.RKEControlPlane,
	error) {
	status := *cp.Status.DeepCopy()
	outcome.Record(&status.Conditions, conditions.Condition{
		Type: rkev1.ConditionReady, Status: rkev1.ConditionFalse, Reason: rkev1.ReasonError,
		Message: "Cannot use what the cluster refers to: " + dropped.Error(),
	}, outcome.Retry{Err: dropped}, h.Now())
	stored, err := h.writeStatus(cp, status)
	if err != nil {
		return cp, h.retry(cp, err)
	}
	return stored, dropped
}

// carryOut writes the ticket, carries out the effects, and reports. One write holds the ticket and the decided status,
// with one exception: a reported failure stays until the effects succeed. Otherwise it would flip with every retry, and
// every write causes an event that triggers the next retry at once.
func (h *handler) carryOut(cp *rkev1.RKEControlPlane, v *view, d planner.Decision) (*rkev1.RKEControlPlane, error) {
	status := d.Status
	if d.Ticket != nil {
		status.Ticket = d.Ticket
		status.Conditions = keepFailure(d.Status.Conditions, cp.Status.Conditions)
		stored, err := h.writeStatus(cp, status)
		if err != nil {
			return cp, h.retry(cp, err)
		}
		cp = stored
	}
	acted := h.act(cp, v, d)
	status.Conditions = concluded(d.Status.Conditions, cp.Status.Conditions, acted, v.snapshot.Now)
	stored, err := h.writeStatus(cp, status)
	if err != nil {
		return cp, h.retry(cp, errors.Join(acted, err))
	}
	if d.Wait != nil && d.Wait.After > 0 {
		h.ControlPlanes.EnqueueAfter(cp.Namespace, cp.Name, d.Wait.After)
	}
	return stored, h.retry(stored, acted)
}

// concluded returns the conditions after the effects: the decided ones, or the failure.
func concluded(decided, stored []rkev1.GenericCondition, acted error, now time.Time) []rkev1.GenericCondition {
	if acted == nil {
		return decided
	}
	out := keepFailure(decided, stored)
	if errs := hard(acted); len(errs) > 0 {
		outcome.Record(&out, conditions.Condition{
			Type: rkev1.ConditionReady, Status: rkev1.ConditionFalse, Reason: rkev1.ReasonError,
			Message: problem(errs[0]),
		}, outcome.Retry{Err: errs[0]}, now)
	}
	return out
}

// keepFailure returns the decided conditions, but keeps a stored Ready that is False.
func keepFailure(decided, stored []rkev1.GenericCondition) []rkev1.GenericCondition {
	out := slices.Clone(decided)
	ready, failed := conditions.Get(out, rkev1.ConditionReady), conditions.Get(stored, rkev1.ConditionReady)
	if ready != nil && failed != nil && failed.Status == rkev1.ConditionFalse {
		*ready = *failed
	}
	return out
}

// writeStatus writes the status if it changed, at the resource version that the decision used. New texts alone may have
// to wait for a moment, and later texts then replace them.
func (h *handler) writeStatus(cp *rkev1.RKEControlPlane, status rkev1.RKEControlPlaneStatus) (*rkev1.RKEControlPlane,
	error) {
	if equality.Semantic.DeepEqual(cp.Status, status) {
		return cp, nil
	}
	if left := h.statuses.Hold(cp.UID, h.Now()); left > 0 && onlyTexts(cp.Status, status) {
		h.ControlPlanes.EnqueueAfter(cp.Namespace, cp.Name, left)
		return cp, nil
	}
	cp, err := h.remember(cp, planner.Memory(status))
	if err != nil {
		return nil, err
	}
	update := cp.DeepCopy()
	update.Status = status
	stored, err := h.ControlPlanes.UpdateStatus(update)
	if err != nil {
		return nil, fmt.Errorf("write the status: %w", err)
	}
	h.statuses.Wrote(cp, stored, h.Now())
	h.written.note(cp.Namespace+"/"+cp.Name, kindControlPlane, stored, h.Now())
	return stored, nil
}

// onlyTexts reports whether two statuses differ in reasons and messages alone. A pause is no mere text, because users
// wait for it.
func onlyTexts(stored, status rkev1.RKEControlPlaneStatus) bool {
	ready := conditions.Get(status.Conditions, rkev1.ConditionReady)
	if ready != nil && ready.Message == planner.PausedMessage {
		return false
	}
	same := conditions.SameStatuses(stored.Conditions, status.Conditions)
	stored.Conditions, status.Conditions = nil, nil
	return same && equality.Semantic.DeepEqual(stored, status)
}

// remember copies the operations' part of the status into an annotation, which survives a loss of the status. It writes
// before the status does, so that the annotation is never behind the status.
func (h *handler) remember(cp *rkev1.RKEControlPlane, memory string) (*rkev1.RKEControlPlane, error) {
	if cp.Annotations[rkev1.MemoryAnnotation] == memory {
		return cp, nil
	}
	update := cp.DeepCopy()
	if memory == "" {
		delete(update.Annotations, rkev1.MemoryAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&update.ObjectMeta, rkev1.MemoryAnnotation, memory)
	}
	stored, err := h.ControlPlanes.Update(update)
	if err != nil {
		return nil, fmt.Errorf("write the copy of the status to an annotation: %w", err)
	}
	h.written.note(cp.Namespace+"/"+cp.Name, kindControlPlane, stored, h.Now())
	return stored, nil
}

// retry returns the error for the work queue. It requeues after a conflict instead, because a conflict is no error.
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

// problem returns the message about a failed action for users. It is stable and omits the API server's text.
func problem(err error) string {
	reason := apierrors.ReasonForError(err)
	if reason == "" {
		return "Cannot carry out the decision: " + outcome.Stable(err.Error())
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
