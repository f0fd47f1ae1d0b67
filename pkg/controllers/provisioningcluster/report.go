package provisioningcluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
)

const (
	// reasonInvalid means that the user must change the Cluster, or create what it names.
	reasonInvalid = "InvalidSpec"
	// reasonOverdue means that an object does not go away and needs a person's attention.
	reasonOverdue = "DeletionOverdue"
	// reasonProtected means that a protected cluster is being deleted.
	reasonProtected = "Protected"
)

// report writes the conditions of this controller, in one write.
func (h *handler) report(facts *Facts, d decision, done result) (*provv1.Cluster, error) {
	cluster := done.cluster
	status := cluster.Status.DeepCopy()
	created, retry := outcome.Conclude(provv1.ConditionCreated, done.identity)
	outcome.Record(&status.Conditions, created, retry, facts.now)
	if !done.untried {
		made, again := outcome.Conclude(provv1.ConditionRKECluster, done.translation)
		outcome.Record(&status.Conditions, made, again, facts.now)
		said := lines(facts.controlPlane, outcome.AsStalled(done.translation) != nil, made)
		forget(&status.Conditions, said)
		odd := understood(cluster, facts.controlPlane, d.told)
		for _, line := range slices.Concat(said, warnings(facts.controlPlane), odd) {
			conditions.Set(&status.Conditions, line, facts.now)
		}
		retry = outcome.Retry{After: again.After, Err: errors.Join(retry.Err, again.Err)}
	} else if cluster.Spec.RKEConfig == nil { // imported
		for _, line := range understood(cluster, nil, nil) {
			conditions.Set(&status.Conditions, line, facts.now)
		}
	}
	if d.step == translate || d.end != nil {
		conditions.Set(&status.Conditions, stalled(done), facts.now)
		if retry.Err == nil {
			status.ObservedGeneration = cluster.Generation
		}
	}
	if isFirst(cluster, done) && conditions.Get(status.Conditions, provv1.ConditionReconciling) == nil {
		// Controller cluster goes on from here.
		conditions.Set(&status.Conditions, topology.Unreached(cluster), facts.now)
	}
	if done.identity == nil {
		status.FleetWorkspaceName = topology.Workspace(cluster)
	}
	return h.write(cluster, status, retry)
}

// isFirst reports whether the Cluster has been translated for the first time.
func isFirst(cluster *provv1.Cluster, done result) bool {
	return !done.untried && done.translation == nil && done.identity == nil && !cluster.Status.Ready &&
		conditions.Get(cluster.Status.Conditions, provv1.ConditionRKECluster) == nil
}

// stalled returns the condition in which tools for every kind read that a person must act.
func stalled(done result) conditions.Condition {
	c := conditions.Condition{Type: provv1.ConditionStalled, Status: rkev1.ConditionFalse}
	if problem := outcome.AsStalled(errors.Join(done.identity, done.translation)); problem != nil {
		c.Status, c.Reason, c.Message = rkev1.ConditionTrue, problem.Reason, problem.Message
	}
	return c
}

// lines returns the three conditions in which user interfaces and scripts read the control plane's message
// (docs/wire/capi.md#conditions-of-a-cluster). Each appears once, because setting one twice would give it a new time in
// every reconcile. A stalled cluster is not Updated, because it does not get the user's latest change. What runs stays
// Ready.
func lines(controlPlane *rkev1.RKEControlPlane, stalled bool, end conditions.Condition) []conditions.Condition {
	var ready *rkev1.GenericCondition
	if controlPlane != nil {
		ready = conditions.Get(controlPlane.Status.Conditions, rkev1.ConditionReady)
	}
	var out []conditions.Condition
	for _, conditionType := range []string{provv1.ConditionUpdated, provv1.ConditionProvisioned,
		provv1.ConditionReady} {
		line := conditions.Condition{Type: conditionType}
		switch {
		case stalled && (conditionType == provv1.ConditionUpdated || conditionType == provv1.ConditionReady &&
			ready == nil):
			line.Status, line.Reason, line.Message = rkev1.ConditionFalse, end.Reason, end.Message
		case ready != nil:
			line.Status, line.Reason, line.Message = ready.Status, ready.Reason, ready.Message
		default:
			continue
		}
		out = append(out, line)
	}
	return out
}

// forget removes conditions about an invalid spec that is corrected, until the control plane sets them.
func forget(list *[]rkev1.GenericCondition, said []conditions.Condition) {
	for _, conditionType := range []string{provv1.ConditionUpdated, provv1.ConditionReady} {
		known := slices.ContainsFunc(said, func(c conditions.Condition) bool { return c.Type == conditionType })
		if old := conditions.Get(*list, conditionType); !known && old != nil &&
			(old.Reason == reasonInvalid || old.Reason == tenancy.ReasonAccessDenied) {
			conditions.Remove(list, conditionType)
		}
	}
}

// warnings returns the control plane's conditions about things that work but need attention, because users read the
// Cluster.
func warnings(controlPlane *rkev1.RKEControlPlane) []conditions.Condition {
	if controlPlane == nil {
		return nil
	}
	var out []conditions.Condition
	for _, conditionType := range []string{planner.ConditionEtcdQuorum, planner.ConditionRenderVersions,
		planner.ConditionAgentsUpgraded} {
		if found := conditions.Get(controlPlane.Status.Conditions, conditionType); found != nil {
			out = append(out, conditions.Condition{Type: conditionType, Status: found.Status, Reason: found.Reason,
				Message: found.Message})
		}
	}
	return out
}

// namedOdd is how many fields of a kind a condition names.
const namedOdd = 3

// understood returns the condition about odd configuration. It combines the control plane's message, fields with a safe
// value, and fields of the Cluster without effect. It is absent until there is something to report.
func understood(
	cluster *provv1.Cluster, controlPlane *rkev1.RKEControlPlane, told field.ErrorList,
) []conditions.Condition {
	line := conditions.Condition{Type: planner.ConditionConfigurationUnderstood}
	if controlPlane != nil {
		if found := conditions.Get(controlPlane.Status.Conditions, line.Type); found != nil {
			line.Status, line.Reason, line.Message = found.Status, found.Reason, found.Message
		}
	}
	reason, text := odd(cluster, told)
	switch old := conditions.Get(cluster.Status.Conditions, line.Type); {
	case text != "" && line.Status == rkev1.ConditionFalse:
		line.Message += "; " + text
	case text != "":
		line.Status, line.Reason, line.Message = rkev1.ConditionFalse, reason, text
	case line.Status == "" && old != nil &&
		(old.Reason == topology.ReasonWithoutEffect || old.Reason == topology.ReasonSafeValue):
		line.Status = rkev1.ConditionTrue // the fields are gone
	case line.Status == "":
		return nil
	}
	return []conditions.Condition{line}
}

// odd describes odd fields of the Cluster. Both results are empty without any.
func odd(cluster *provv1.Cluster, told field.ErrorList) (reason, text string) {
	var safe, ignored []string
	for _, err := range told {
		safe = append(safe, "to be corrected, and made harmless until then: "+err.Error())
	}
	for _, one := range topology.WithoutEffect(cluster) {
		ignored = append(ignored, one.String())
	}
	texts := slices.Concat(named(safe, "fields to be corrected"), named(ignored, "fields without effect"))
	switch {
	case len(safe) > 0:
		reason = topology.ReasonSafeValue
	case len(ignored) > 0:
		reason = topology.ReasonWithoutEffect
	}
	return reason, strings.Join(texts, "; ")
}

// named returns the first texts, and the number of further ones.
func named(texts []string, what string) []string {
	if more := len(texts) - namedOdd; more > 0 {
		return append(texts[:namedOdd:namedOdd], fmt.Sprintf("and %d more %s", more, what))
	}
	return texts
}

// reportRemoval shows in condition Removed what a deletion waits for, and no other problem.
func (h *handler) reportRemoval(facts *Facts, end error) (*provv1.Cluster, error) {
	cluster := facts.input.Cluster
	status := cluster.Status.DeepCopy()
	for _, conditionType := range []string{
		provv1.ConditionProvisioned, provv1.ConditionWaiting, provv1.ConditionPending, provv1.ConditionUpdated,
	} {
		follows := conditions.Condition{Type: conditionType, Status: rkev1.ConditionTrue}
		conditions.Set(&status.Conditions, follows, facts.now)
	}
	condition, retry := outcome.Conclude(provv1.ConditionRemoved, end)
	outcome.Record(&status.Conditions, condition, retry, facts.now)
	return h.write(cluster, status, retry)
}

// onlyTexts reports whether the stored status and a new one differ in reasons and messages alone. Users wait for the
// progress of a deletion and of a pause, so that is no mere text.
func onlyTexts(cluster *provv1.Cluster, status *provv1.ClusterStatus) bool {
	ready := conditions.Get(status.Conditions, provv1.ConditionReady)
	if !cluster.DeletionTimestamp.IsZero() || ready != nil && ready.Message == planner.PausedMessage {
		return false
	}
	before, after := cluster.Status, *status
	same := conditions.SameStatuses(before.Conditions, after.Conditions)
	before.Conditions, after.Conditions = nil, nil
	return same && equality.Semantic.DeepEqual(before, after)
}

// write writes the status only if it changed. New texts alone may have to wait for a moment, and later texts then
// replace them. It returns the result for the work queue.
func (h *handler) write(
	cluster *provv1.Cluster, status *provv1.ClusterStatus, retry outcome.Retry,
) (*provv1.Cluster, error) {
	if retry.After > 0 {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, retry.After)
	}
	if equality.Semantic.DeepEqual(&cluster.Status, status) {
		return cluster, retry.Err
	}
	if left := h.Statuses.Hold(cluster.UID, h.Now()); left > 0 && onlyTexts(cluster, status) {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, left)
		return cluster, retry.Err
	}
	changed := cluster.DeepCopy()
	changed.Status = *status
	updated, err := h.Clusters.UpdateStatus(changed)
	if apierrors.IsNotFound(err) {
		return cluster, nil
	}
	if err != nil {
		return cluster, fmt.Errorf("write status of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.Statuses.Wrote(cluster, updated, h.Now())
	return updated, retry.Err
}
