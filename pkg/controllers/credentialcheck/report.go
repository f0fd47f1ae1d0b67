package credentialcheck

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	provv1 "github.com/drover-io/drover/pkg/apis/provisioning.cattle.io/v1"
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
	"github.com/drover-io/drover/pkg/decide/credentialjob"
)

// report writes the condition, in one write and only if it changed.
func (h *handler) report(facts *Facts) (*provv1.Cluster, error) {
	cluster, wanted := facts.cluster, facts.condition()
	changed := cluster.DeepCopy()
	switch {
	case wanted != nil:
		if !conditions.Set(&changed.Status.Conditions, *wanted, facts.now) {
			return cluster, nil
		}
	case len(facts.checks) > 0 && facts.running():
		return cluster, nil // the earlier result stays
	case conditions.Get(cluster.Status.Conditions, provv1.ConditionCloudCredentialValid) == nil:
		return cluster, nil
	default:
		conditions.Remove(&changed.Status.Conditions, provv1.ConditionCloudCredentialValid)
	}
	updated, err := h.Clusters.UpdateStatus(changed)
	if apierrors.IsNotFound(err) {
		return cluster, nil
	}
	if err != nil {
		return cluster, fmt.Errorf("write status of cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	h.Statuses.Wrote(cluster, updated, facts.now)
	return updated, nil
}

// running reports whether a result is missing.
func (f *Facts) running() bool {
	for i := range f.checks {
		if f.checks[i].question != nil && f.checks[i].result == nil {
			return true
		}
	}
	return false
}

// condition returns the condition of all checks, nil while there is nothing to say. A problem precedes a missing
// answer, which precedes a valid credential.
func (f *Facts) condition() *conditions.Condition {
	out := &conditions.Condition{Type: provv1.ConditionCloudCredentialValid}
	var said []string
	for i := range f.checks {
		c := &f.checks[i]
		result, known := c.conclusion()
		if !known {
			continue
		}
		status := result.Status()
		if out.Status == "" || rank(status) > rank(out.Status) {
			out.Status, out.Reason, said = status, result.Reason, nil
		}
		if status == out.Status {
			said = append(said, fmt.Sprintf("Secret %s: %s", c.name(), result.Message))
		}
	}
	if out.Status == "" || out.Status == rkev1.ConditionTrue && f.running() {
		return nil
	}
	out.Message = strings.Join(said, "; ")
	return out
}

func rank(status string) int {
	switch status {
	case rkev1.ConditionFalse:
		return 2
	case rkev1.ConditionUnknown:
		return 1
	}
	return 0
}

// conclusion returns the result of a check, and whether there is one.
func (c *check) conclusion() (credentialjob.Result, bool) {
	if len(c.problems) > 0 {
		var texts []string
		for _, problem := range c.problems {
			texts = append(texts, problem.String())
		}
		return credentialjob.Result{Reason: credentialjob.ReasonInvalid, Message: strings.Join(texts, "; ")}, true
	}
	if c.result == nil {
		return credentialjob.Result{}, false
	}
	return *c.result, true
}
