package planner

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// notReconciled is the message of the condition Reconciled while some node lacks the current spec.
const notReconciled = "RKEControlPlane has not been fully reconciled yet"

// setSummary sets the conditions for the result of the walk.
func (p *pass) setSummary(wait *Wait) {
	p.status.ObservedGeneration = p.s.ControlPlane.Generation
	p.status.AgentConnected = p.s.Connected
	// Cluster API summarizes conditions that do not apply to a control plane without replicas.
	for _, kind := range []string{rkev1.ConditionScalingUp, rkev1.ConditionScalingDown, rkev1.ConditionRollingOut} {
		p.set(kind, corev1.ConditionFalse, "", "")
	}
	p.setWarnings(wait)
	p.setQuorum()
	p.setVersions()
	if wait == nil {
		p.set(rkev1.ConditionReady, corev1.ConditionTrue, "", "")
		p.set(rkev1.ConditionStable, corev1.ConditionTrue, "", "")
		p.set(rkev1.ConditionReconciled, corev1.ConditionTrue, "", "")
		if !p.specApplied() {
			p.status.AppliedSpec = p.s.ControlPlane.Spec.DeepCopy()
		}
		return
	}
	status, reason := corev1.ConditionUnknown, rkev1.ReasonWaiting
	if wait.Failed {
		status, reason = corev1.ConditionFalse, rkev1.ReasonError
	}
	p.set(rkev1.ConditionReady, status, reason, wait.Message)
	if !p.specApplied() {
		p.set(rkev1.ConditionReconciled, status, reason, notReconciled)
	}
}

// ConditionConfigurationUnderstood on an RKEControlPlane is False while its configuration has oddities that Drover
// passes to the nodes unchanged. An example is a key that the release is not known to have.
const ConditionConfigurationUnderstood = "ConfigurationUnderstood"

// setWarnings reports oddities of the configuration. They are complete only when all machines were rendered. Until then
// the previous report stays.
func (p *pass) setWarnings(wait *Wait) {
	warnings, all := sortedWarnings(p.warnings), wait == nil || p.rendered
	if len(warnings) == 0 {
		if all && conditions.Get(p.status.Conditions, ConditionConfigurationUnderstood) != nil {
			p.set(ConditionConfigurationUnderstood, corev1.ConditionTrue, "", "")
		}
		return
	}
	if !all && conditions.IsFalse(p.status.Conditions, ConditionConfigurationUnderstood) {
		return
	}
	texts := make([]string, 0, namedMax+1)
	for _, w := range warnings[:min(len(warnings), namedMax)] {
		texts = append(texts, w.Field+": "+w.Message)
	}
	if more := len(warnings) - namedMax; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	p.set(ConditionConfigurationUnderstood, corev1.ConditionFalse, warnings[0].Reason, strings.Join(texts, "; "))
}

// ConditionEtcdQuorum on an RKEControlPlane is False while an even number of machines have etcd. One machine fewer
// survives as many failures.
const ConditionEtcdQuorum = "EtcdQuorum"

// ReasonEvenMembers is the reason of that condition when it is False.
const ReasonEvenMembers = "EvenMembers"

// setQuorum warns of an even number of etcd machines. Clusters that never had one get no condition.
func (p *pass) setQuorum() {
	members := 0
	for _, m := range slices.Concat(p.machines, p.unregistered) {
		members += btoi(m.roles.ETCD && !m.Deleting)
	}
	switch {
	case members > 0 && members%2 == 0:
		p.set(ConditionEtcdQuorum, corev1.ConditionFalse, ReasonEvenMembers,
			fmt.Sprintf("The cluster has %d machines with etcd, which survive no more failures than %d; use an odd number", members, members-1))
	case conditions.Get(p.status.Conditions, ConditionEtcdQuorum) != nil:
		p.set(ConditionEtcdQuorum, corev1.ConditionTrue, "", "")
	}
}

// specApplied reports that all nodes once had exactly the current spec.
func (p *pass) specApplied() bool {
	applied := p.s.ControlPlane.Status.AppliedSpec
	return applied != nil && equality.Semantic.DeepEqual(*applied, p.s.ControlPlane.Spec)
}

// has reports that a condition of that kind exists.
func (p *pass) has(kind string) bool { return conditions.Get(p.status.Conditions, kind) != nil }

// set writes a condition of the status. An equal condition stays unchanged, including its times.
func (p *pass) set(kind string, status corev1.ConditionStatus, reason, message string) {
	conditions.Set(&p.status.Conditions, conditions.Condition{Type: kind, Status: string(status), Reason: reason, Message: message}, p.s.Now)
}
