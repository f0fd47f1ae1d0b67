package bootstrap

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/bootstrapdata"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
)

// conclude reports the result of act, if there is something to report.
func (h *handler) conclude(bootstrap *rkev1.RKEBootstrap, done bool, err error) (*rkev1.RKEBootstrap, error) {
	switch {
	case isShown(err):
		return h.reportProblem(bootstrap, err)
	case err != nil || !done:
		return bootstrap, err
	default:
		return h.report(bootstrap)
	}
}

// report marks the bootstrap data as created, so that Cluster API lets the machine be made. It never reverts that. It
// clears a reported problem.
func (h *handler) report(bootstrap *rkev1.RKEBootstrap) (*rkev1.RKEBootstrap, error) {
	name := namesOf(bootstrap.Name).bootstrap
	status := bootstrap.Status.DeepCopy()
	reported := status.DataSecretName != nil && *status.DataSecretName == name &&
		status.Initialization.DataSecretCreated != nil && *status.Initialization.DataSecretCreated
	if reported && !conditions.IsFalseMeta(status.Conditions, rkev1.ConditionReady) {
		return bootstrap, nil
	}
	status.DataSecretName = &name
	status.Initialization.DataSecretCreated = new(true)
	ready := conditions.Condition{Type: rkev1.ConditionReady, Status: rkev1.ConditionTrue}
	conditions.SetMeta(&status.Conditions, ready, bootstrap.Generation, h.Now())
	return h.writeStatus(bootstrap, status)
}

// isShown reports whether an error lasts until a person fixes it. Temporary errors of the API server are retried and
// not shown, and their text may vary.
func isShown(err error) bool {
	return outcome.AsStalled(err) != nil || apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}

// reportProblem says why there are no bootstrap data. Cluster API shows the condition as BootstrapConfigReady of the
// Machine (docs/wire/capi.md#bootstrap).
func (h *handler) reportProblem(bootstrap *rkev1.RKEBootstrap, problem error) (*rkev1.RKEBootstrap, error) {
	ready, retry := outcome.Conclude(rkev1.ConditionReady, problem)
	status := bootstrap.Status.DeepCopy()
	conditions.SetMeta(&status.Conditions, ready, bootstrap.Generation, h.Now())
	updated, err := h.writeStatus(bootstrap, status)
	if err != nil {
		return updated, err
	}
	return updated, retry.Err
}

// reportWait reports why a deleted machine is held. An empty wait removes the condition.
func (h *handler) reportWait(bootstrap *rkev1.RKEBootstrap, wait string) (*rkev1.RKEBootstrap, error) {
	status := bootstrap.Status.DeepCopy()
	if wait == "" {
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool {
			return c.Type == rkev1.ConditionEtcdMemberLeft
		})
	} else {
		conditions.SetMeta(&status.Conditions, conditions.Condition{
			Type: rkev1.ConditionEtcdMemberLeft, Status: rkev1.ConditionFalse,
			Reason: bootstrapdata.ReasonEtcdMemberHeld, Message: wait,
		}, bootstrap.Generation, h.Now())
	}
	return h.writeStatus(bootstrap, status)
}

func (h *handler) writeStatus(bootstrap *rkev1.RKEBootstrap, status *rkev1.RKEBootstrapStatus) (*rkev1.RKEBootstrap,
	error) {
	if equality.Semantic.DeepEqual(&bootstrap.Status, status) {
		return bootstrap, nil
	}
	next := bootstrap.DeepCopy()
	next.Status = *status
	updated, err := h.Bootstraps.UpdateStatus(next)
	if err != nil {
		return bootstrap, fmt.Errorf("write status of RKEBootstrap %s/%s: %w", bootstrap.Namespace, bootstrap.Name, err)
	}
	h.written.Replaced(bootstrap.UID, bootstrap.ResourceVersion, h.Now())
	return updated, nil
}
