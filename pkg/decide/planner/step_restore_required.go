package planner

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// etcdReplaced is the message when no machine with the cluster's data is left. User interfaces look for it.
const etcdReplaced = "rkecontrolplane was already initialized but no etcd machines exist that have plans, " +
	"indicating the etcd plane has been entirely replaced. Restoration from etcd snapshot is required."

// stepRestoreRequired prevents a second cluster where one existed. When the cluster had etcd data and no remaining
// machine can hold them, only a restore helps.
func stepRestoreRequired(p *pass) verdict {
	all := p.all()
	joined := func(m *machine) bool { return m.Marks.JoinURL != "" || m.Marks.JoinedTo != "" }
	restored := p.status.ConfigGeneration > 0 // a restore resets the condition, and counts once the data are there
	if !restored && !conditions.IsTrue(p.status.Conditions, rkev1.ConditionBootstrapped) &&
		!slices.ContainsFunc(all, joined) {
		return goOn("the cluster has no data yet")
	}
	if slices.ContainsFunc(all, func(m *machine) bool { return m.roles.ETCD && m.gotPlan() }) {
		return goOn("machines with the cluster's data exist")
	}
	p.set(rkev1.ConditionStable, corev1.ConditionFalse, rkev1.ReasonWaiting, "")
	return stopFor(failure(ReasonRestoreRequired, etcdReplaced, WakeControlPlane, WakeMachine, WakePlanSecret))
}
