package planner

import (
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// lastMembers are the machines with the cluster's data when all machines with etcd are being deleted and most of their
// members may work. It is empty after a permanent loss of the majority of etcd, because holding the rest saves nothing.
func (e *etcd) lastMembers() []*machine {
	held := e.collect(isEtcd, isHeld, e.mayBeMember)
	staying := e.collect(isEtcd, e.maySurvive)
	if len(e.collect(isEtcd, isLive)) > 0 || 2*len(staying) <= len(held) {
		return nil
	}
	return staying
}

// giveUp is the advice for the case that the members of machines do not come back.
const giveUp = "annotate the RKEBootstraps of these machines " + rkev1.ForceRemoveEtcdAnnotation +
	"=true, and restore a snapshot on other machines with " +
	"spec.rkeConfig.etcdSnapshotRestore"

// isHeld reports that a machine is being deleted, and waits until its member leaves etcd.
func isHeld(m *machine) bool { return m.Deleting && m.Held && !m.ForceRemove }

// maySurvive reports that a deleting machine is held, and that its etcd member works or may work again soon.
func (e *etcd) maySurvive(m *machine) bool { return isHeld(m) && e.mayBeMember(m) && e.mayWork(m) }

// mayWork reports that the etcd member of a machine works or may work again soon. Drover gives up a member that does
// not work only when its node is lost or unseen for long. Otherwise a restarting server would take the data with it. A
// report that all is well counts even for an unseen node, because only the connection to the cluster may be down.
func (e *etcd) mayWork(m *machine) bool {
	switch {
	case !m.NodeLostSince.IsZero():
		return !e.isOverdue(m.NodeLostSince)
	case m.etcdServes():
		return true
	case m.NodeUnknown:
		return m.NodeUnknownSince.IsZero() || !e.isOverdue(m.NodeUnknownSince)
	}
	return m.HasNode || !e.isOverdue(m.Plan.DeliveredAt)
}

// isUnseenForLong reports that a machine's node was unseen for longer than it takes to repair a connection.
func (e *etcd) isUnseenForLong(m *machine) bool {
	return m.NodeUnknown && !m.NodeUnknownSince.IsZero() && e.isOverdue(m.NodeUnknownSince)
}

// waitForNewMembers is the wait for a machine that can take over the data. When the old machines were unseen for long,
// only the user knows whether they are gone.
func (e *etcd) waitForNewMembers(staying []*machine) *Wait {
	notes := notesOf(staying)
	isKnown := func(m *machine) bool { return !e.isUnseenForLong(m) }
	if !slices.ContainsFunc(staying, isKnown) {
		const unseen = "All machines with etcd are being deleted, " +
			"and Drover has not seen the machines with the cluster's data for a long time:"
		return failure(ReasonEtcdStays, about(unseen, notes)+
			". If their hosts are gone, "+giveUp+"; otherwise repair the connection to them", WakeMachine,
			WakePlanSecret)
	}
	return waitFor(ReasonEtcdStays,
		about("waiting for another machine with etcd to be registered: all are being deleted, and the cluster's "+
			"data are on", notes)+
			". If none is coming, raise the quantity of a pool with etcd; to give the data up, "+giveUp, WakeMachine,
		WakePlanSecret)
}

// keepMember returns a working member whose machine is being deleted, so that others can join it. It prefers the init
// node, and is nil when there is none. The machine gets no other plan. A member whose node cannot be seen does not
// count. A dead host has reported that all is well too, and a machine with a plan looks like a part of the cluster from
// then on.
func (e *etcd) keepMember(gone []*machine) *machine {
	joinable := func(m *machine) bool {
		return isEtcd(m) && isHeld(m) && m.etcdServes() && m.marks.JoinURL != "" && !m.NodeUnknown
	}
	for _, m := range gone {
		if m.marks.InitNode && m.Plan != nil && joinable(m) {
			return m
		}
	}
	if found := e.collect(joinable); len(found) > 0 {
		return found[0]
	}
	return nil
}
