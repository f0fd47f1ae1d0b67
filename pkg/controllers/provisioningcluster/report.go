package provisioningcluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/outcome"
	"github.com/drover-io/drover/pkg/decide/planner"
	"github.com/drover-io/drover/pkg/decide/tenancy"
	"github.com/drover-io/drover/pkg/decide/topology"
)

const (
	// reasonInvalid: the user has to change the Cluster, or make what it names.
	reasonInvalid = "InvalidSpec"
	// reasonOverdue: something does not go away, and a person has to look.
	reasonOverdue = "DeletionOverdue"
	// reasonProtected: the cluster is to be deleted, and must not be.
	reasonProtected = "Protected"
)

func invalid(seen *facts, message string) error {
	if len(seen.denied) > 0 {
		return outcome.Stall(tenancy.ReasonAccessDenied, message)
	}
	return outcome.Stall(reasonInvalid, message)
}

const (
	// servedSoon is how soon to look again whether a kind is served: its cache being
	// filled is no event of any object.
	servedSoon = 250 * time.Millisecond
	// cachesFill is how long after its start a process may still be filling the
	// caches of kinds that have been there before.
	cachesFill = time.Minute
)

// reportUnserved waits for kinds that were defined a moment ago, or whose cache
// is not filled yet because this process was just started. The second is nobody's
// business: what was said before stays so.
func (h *handler) reportUnserved(seen *facts) (*provv1.Cluster, error) {
	cluster := seen.input.Cluster
	said := conditions.Get(cluster.Status.Conditions, provv1.ConditionRKECluster)
	starting := seen.now.Sub(h.registered) < cachesFill
	if seen.controlPlane != nil || said != nil && (starting || said.Status == rkev1.ConditionTrue) {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, servedSoon)
		return cluster, nil
	}
	return h.report(seen, cluster, outcome.WaitFor("", "Waiting for kind "+seen.unserved[0]+" to be served", "timer", servedSoon))
}

// report writes the conditions of this controller, in one status write and only
// when they changed, and says what the queue does next.
func (h *handler) report(seen *facts, cluster *provv1.Cluster, end error) (*provv1.Cluster, error) {
	status := cluster.Status.DeepCopy()
	condition, retry := outcome.Conclude(provv1.ConditionRKECluster, end)
	outcome.Record(&status.Conditions, condition, retry, seen.now)
	said := lines(seen.controlPlane, outcome.AsStalled(end) != nil, condition)
	forget(&status.Conditions, said)
	for _, line := range slices.Concat(said, warnings(seen.controlPlane), understood(cluster, seen)) {
		conditions.Set(&status.Conditions, line, seen.now)
	}
	updated, err := h.write(cluster, status)
	if err != nil {
		return cluster, err
	}
	if retry.After > 0 {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, retry.After)
	}
	return updated, retry.Err
}

// lines are the three conditions in which user interfaces and scripts read the
// control plane's line (docs/wire/capi.md#conditions-of-a-cluster), each once: one that is set twice in a
// pass gets a new time in every pass. A stalled cluster is not updated, because
// what the user asked for last is not what it gets; what runs stays ready.
func lines(controlPlane *rkev1.RKEControlPlane, stalled bool, end conditions.Condition) []conditions.Condition {
	var ready *rkev1.GenericCondition
	if controlPlane != nil {
		ready = conditions.Get(controlPlane.Status.Conditions, rkev1.ConditionReady)
	}
	var out []conditions.Condition
	for _, conditionType := range []string{provv1.ConditionUpdated, provv1.ConditionProvisioned, provv1.ConditionReady} {
		line := conditions.Condition{Type: conditionType}
		switch {
		case stalled && (conditionType == provv1.ConditionUpdated || conditionType == provv1.ConditionReady && ready == nil):
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

// forget removes what was said of a spec that was invalid, where nothing else is
// said now: it is over, and the control plane has not spoken yet.
func forget(list *[]rkev1.GenericCondition, said []conditions.Condition) {
	for _, conditionType := range []string{provv1.ConditionUpdated, provv1.ConditionReady} {
		known := slices.ContainsFunc(said, func(c conditions.Condition) bool { return c.Type == conditionType })
		if old := conditions.Get(*list, conditionType); !known && old != nil && (old.Reason == reasonInvalid || old.Reason == tenancy.ReasonAccessDenied) {
			conditions.Remove(list, conditionType)
		}
	}
}

// warnings are the conditions by which the control plane tells of what works and
// should be looked at all the same. Users look at the Cluster.
func warnings(controlPlane *rkev1.RKEControlPlane) []conditions.Condition {
	if controlPlane == nil {
		return nil
	}
	var out []conditions.Condition
	for _, conditionType := range []string{planner.ConditionEtcdQuorum, planner.ConditionRenderVersions} {
		if found := conditions.Get(controlPlane.Status.Conditions, conditionType); found != nil {
			out = append(out, conditions.Condition{Type: conditionType, Status: found.Status, Reason: found.Reason, Message: found.Message})
		}
	}
	return out
}

// namedOdd is how many fields of a kind a condition names.
const namedOdd = 3

// understood is the condition about what is odd in the configuration: what the control plane says, fields that a safe value is used for, and
// fields of the Cluster that never get anywhere. Nothing is said while nothing ever was.
func understood(cluster *provv1.Cluster, seen *facts) []conditions.Condition {
	line := conditions.Condition{Type: planner.ConditionConfigurationUnderstood}
	if seen.controlPlane != nil {
		if found := conditions.Get(seen.controlPlane.Status.Conditions, line.Type); found != nil {
			line.Status, line.Reason, line.Message = found.Status, found.Reason, found.Message
		}
	}
	reason, text := odd(cluster, seen)
	switch old := conditions.Get(cluster.Status.Conditions, line.Type); {
	case text != "" && line.Status == rkev1.ConditionFalse:
		line.Message += "; " + text
	case text != "":
		line.Status, line.Reason, line.Message = rkev1.ConditionFalse, reason, text
	case line.Status == "" && old != nil && (old.Reason == topology.ReasonWithoutEffect || old.Reason == topology.ReasonSafeValue):
		line.Status = rkev1.ConditionTrue // the fields are gone
	case line.Status == "":
		return nil
	}
	return []conditions.Condition{line}
}

// odd tells of fields of the Cluster; both are empty when there is nothing to tell.
func odd(cluster *provv1.Cluster, seen *facts) (reason, text string) {
	var safe, ignored []string
	for _, err := range seen.told {
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

// named are the first of the texts, and how many more of what there are.
func named(texts []string, what string) []string {
	if more := len(texts) - namedOdd; more > 0 {
		return append(texts[:namedOdd:namedOdd], fmt.Sprintf("and %d more %s", more, what))
	}
	return texts
}

// reportRemoval shows what a removal waits for in condition Removed, and nothing
// else as a problem.
func (h *handler) reportRemoval(seen *facts, progress removal) (*provv1.Cluster, error) {
	cluster := seen.input.Cluster
	status := cluster.Status.DeepCopy()
	for _, conditionType := range []string{
		provv1.ConditionProvisioned, provv1.ConditionWaiting, provv1.ConditionPending, provv1.ConditionUpdated,
	} {
		conditions.Set(&status.Conditions, conditions.Condition{Type: conditionType, Status: rkev1.ConditionTrue}, seen.now)
	}
	end := progress.err
	if progress.waiting != nil {
		end = progress.waiting
	}
	condition, retry := outcome.Conclude(provv1.ConditionRemoved, end)
	outcome.Record(&status.Conditions, condition, retry, seen.now)
	updated, err := h.write(cluster, status)
	if err != nil {
		return cluster, err
	}
	if retry.After > 0 {
		h.Clusters.EnqueueAfter(cluster.Namespace, cluster.Name, retry.After)
	}
	return updated, retry.Err
}

func (h *handler) write(cluster *provv1.Cluster, status *provv1.ClusterStatus) (*provv1.Cluster, error) {
	if equality.Semantic.DeepEqual(&cluster.Status, status) {
		return cluster, nil
	}
	changed := cluster.DeepCopy()
	changed.Status = *status
	updated, err := h.Clusters.UpdateStatus(changed)
	if apierrors.IsNotFound(err) {
		return cluster, nil
	}
	if err != nil {
		return nil, fmt.Errorf("write status of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return updated, nil
}
