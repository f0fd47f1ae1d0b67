package planner

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// notReconciled is the message of the condition Reconciled while some node lacks the current spec.
const notReconciled = "RKEControlPlane has not been fully reconciled yet"

// summary is the status of the control plane as it will be after the pass.
type summary struct {
	*cluster
	status rkev1.RKEControlPlaneStatus
	// rendered is true when the plans of all machines were rendered, whatever Drover waits for.
	rendered bool
}

// setSummary sets the conditions for the result of the walk.
func (u *summary) setSummary(wait *Wait) {
	u.status.ObservedGeneration = u.s.ControlPlane.Generation
	u.status.AgentConnected = u.s.Connected
	// Cluster API summarizes conditions that do not apply to a control plane without replicas.
	for _, kind := range []string{rkev1.ConditionScalingUp, rkev1.ConditionScalingDown, rkev1.ConditionRollingOut} {
		u.set(kind, corev1.ConditionFalse, "", "")
	}
	u.setWarnings(wait)
	u.setQuorum()
	u.setVersions()
	if wait == nil {
		u.set(rkev1.ConditionReady, corev1.ConditionTrue, "", "")
		u.set(rkev1.ConditionStable, corev1.ConditionTrue, "", "")
		u.set(rkev1.ConditionReconciled, corev1.ConditionTrue, "", "")
		if !u.specApplied() {
			u.status.AppliedSpec = u.s.ControlPlane.Spec.DeepCopy()
		}
		return
	}
	status, reason := corev1.ConditionUnknown, rkev1.ReasonWaiting
	if wait.Failed {
		status, reason = corev1.ConditionFalse, rkev1.ReasonError
	}
	u.set(rkev1.ConditionReady, status, reason, wait.Message)
	if !u.specApplied() {
		u.set(rkev1.ConditionReconciled, status, reason, notReconciled)
	}
}

// ConditionConfigurationUnderstood on an RKEControlPlane is False while its configuration has oddities that Drover
// passes to the nodes unchanged. An example is a key that the release is not known to have.
const ConditionConfigurationUnderstood = "ConfigurationUnderstood"

// setWarnings reports oddities of the configuration. They are complete only when all machines were rendered. Until then
// the previous report stays.
func (u *summary) setWarnings(wait *Wait) {
	warnings, all := sortedWarnings(u.warnings), wait == nil || u.rendered
	if len(warnings) == 0 {
		if all && conditions.Get(u.status.Conditions, ConditionConfigurationUnderstood) != nil {
			u.set(ConditionConfigurationUnderstood, corev1.ConditionTrue, "", "")
		}
		return
	}
	if !all && conditions.IsFalse(u.status.Conditions, ConditionConfigurationUnderstood) {
		return
	}
	texts := make([]string, 0, namedMax+1)
	for _, w := range warnings[:min(len(warnings), namedMax)] {
		texts = append(texts, w.Field+": "+w.Message)
	}
	if more := len(warnings) - namedMax; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	u.set(ConditionConfigurationUnderstood, corev1.ConditionFalse, warnings[0].Reason, strings.Join(texts, "; "))
}

// ConditionEtcdQuorum on an RKEControlPlane is False while an even number of machines have etcd. One machine fewer
// survives as many failures.
const ConditionEtcdQuorum = "EtcdQuorum"

// ReasonEvenMembers is the reason of that condition when it is False.
const ReasonEvenMembers = "EvenMembers"

// setQuorum warns of an even number of etcd machines. Clusters that never had one get no condition.
func (u *summary) setQuorum() {
	members := 0
	for _, m := range u.all() {
		members += btoi(m.roles.ETCD && !m.Deleting)
	}
	switch {
	case members > 0 && members%2 == 0:
		u.set(ConditionEtcdQuorum, corev1.ConditionFalse, ReasonEvenMembers,
			fmt.Sprintf(
				"The cluster has %d machines with etcd, which survive no more failures than %d; use an odd number",
				members, members-1))
	case conditions.Get(u.status.Conditions, ConditionEtcdQuorum) != nil:
		u.set(ConditionEtcdQuorum, corev1.ConditionTrue, "", "")
	}
}

// specApplied reports that all nodes once had exactly the current spec.
func (u *summary) specApplied() bool {
	applied := u.s.ControlPlane.Status.AppliedSpec
	return applied != nil && equality.Semantic.DeepEqual(*applied, u.s.ControlPlane.Spec)
}

// has reports that a condition of that kind exists.
func (u *summary) has(kind string) bool { return conditions.Get(u.status.Conditions, kind) != nil }

// set writes a condition of the status. An equal condition stays unchanged, including its times.
func (u *summary) set(kind string, status corev1.ConditionStatus, reason, message string) {
	condition := conditions.Condition{Type: kind, Status: string(status), Reason: reason, Message: message}
	conditions.Set(&u.status.Conditions, condition, u.s.Now)
}
