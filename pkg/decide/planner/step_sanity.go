package planner

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// stepSanity requires a live machine of each role. Without etcd or control plane there is no API. Then Drover reports
// that to Cluster API, and releases etcd machines that are being deleted, because nothing is left that could remove
// their members. While those members work, they hold the cluster's only data and stay until others have joined them:
// the user may have renamed a pool. A restore from S3 gives up those that Drover cannot see. A missing worker alone
// changes nothing that exists. While an operation has paused the cluster, machines are neither replaced nor removed, so
// the operation ends first.
func stepSanity(p *pass) verdict {
	etcd, controlPlane := p.collect(isEtcd, isLive), p.collect(isControlPlane, isLive)
	if min(len(etcd), len(controlPlane), len(p.collect(isWorker, isLive))) > 0 {
		p.set(rkev1.ConditionProvisioned, corev1.ConditionTrue, "", "")
		return goOn("there is a live machine of each role")
	}
	p.set(rkev1.ConditionStable, corev1.ConditionFalse, rkev1.ReasonWaiting, "")
	if p.pausedByOperation() {
		return goOn("a role has no live machine, and gets none before the CAPI cluster is resumed, which " +
			p.s.Cluster.PausedBy + " has paused")
	}
	staying := p.lastMembers()
	noEtcd := len(etcd) == 0 && len(staying) == 0
	if noEtcd || len(controlPlane) == 0 && len(p.collect(isControlPlane, p.etcd.maySurvive)) == 0 {
		if wait := p.uninitialize(noEtcd); wait != nil {
			return stopFor(wait)
		}
	}
	if len(etcd) == 0 && len(staying) > 0 {
		return stopFor(p.etcd.waitForNewMembers(staying))
	}
	return stopFor(waitFor(ReasonMissingRole,
		"waiting for at least one control plane, etcd, and worker node to be registered",
		WakePlanSecret, WakeMachine))
}

// lastMembers are the machines that hold the cluster's only data. The user gives up the data by a restore from S3,
// which replaces them. While Drover sees such a machine working, it holds the data all the same: nothing has made sure
// yet that the snapshot is there.
func (p *pass) lastMembers() []*machine {
	staying := p.etcd.lastMembers()
	if !(restore{newOperation(p, kindRestore)}).isFromS3() {
		return staying
	}
	return only(staying, func(m *machine) bool { return !m.NodeUnknown && m.NodeLostSince.IsZero() })
}

// pausedByOperation reports that an operation has paused the cluster, and that it is still paused.
func (p *pass) pausedByOperation() bool { return p.s.Cluster.Paused && p.s.Cluster.PausedBy != "" }

// uninitialize withdraws the report that the control plane is initialized: first in the status, and when that is
// stored, on the CAPI cluster.
func (p *pass) uninitialize(noEtcd bool) *Wait {
	if p.initialized() {
		p.setInitialized(false)
		return waitFor(ReasonUninitializing,
			fmt.Sprintf("uninitializing rkecontrolplane %s/%s", p.s.ControlPlane.Namespace, p.s.ControlPlane.Name),
			WakeControlPlane)
	}
	if p.s.Cluster.Initialized {
		p.first = append(p.first, ResetClusterInitialized{})
	}
	deleting := p.collect(isEtcd, isDeleting)
	if !noEtcd || len(deleting) == 0 {
		return nil
	}
	for _, m := range deleting {
		if !m.ForceRemove {
			p.last = append(p.last, ForceRemoveMachine{Machine: m.Name})
		}
	}
	return waitFor(ReasonEtcdDeleting, "waiting for all etcd machines to be deleted", WakeMachine)
}
