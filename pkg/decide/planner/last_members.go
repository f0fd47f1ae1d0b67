package planner

import (
	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// lastMembers are the machines with the cluster's data when all machines with etcd are being deleted, as long as most of their members may work.
// None are left when etcd has lost its majority for good: nothing is kept by holding the rest.
func (p *pass) lastMembers() []*machine {
	held := p.collect(isEtcd, isHeld, p.inEtcd)
	staying := p.collect(isEtcd, p.maySurvive)
	if len(p.collect(isEtcd, isLive)) > 0 || 2*len(staying) <= len(held) {
		return nil
	}
	return staying
}

// giveUp is what a person does who knows that the members of machines do not come back.
const giveUp = "annotate the RKEBootstraps of these machines " + rkev1.ForceRemoveEtcdAnnotation + "=true, and restore a snapshot on other machines with " +
	"spec.rkeConfig.etcdSnapshotRestore"

// isHeld reports that a machine is being deleted, and waits for its member to leave etcd.
func isHeld(m *machine) bool { return m.Deleting && m.Held && !m.ForceRemove }

// maySurvive reports that a machine which is being deleted is held and may have a member that works, or works again soon.
func (p *pass) maySurvive(m *machine) bool { return isHeld(m) && p.inEtcd(m) && p.mayWork(m) }

// mayWork reports that the member of a machine may work, or work again soon. What does not work is given up only when its node is lost, or when
// nobody could look at it, for long: a server that restarts would take the data with it. A report that all is well is believed even then,
// because the connection to the cluster alone may be down.
func (p *pass) mayWork(m *machine) bool {
	switch {
	case !m.NodeLostSince.IsZero():
		return !p.overdue(m.NodeLostSince)
	case m.etcdServes():
		return true
	case m.NodeUnknown:
		return m.NodeUnknownSince.IsZero() || !p.overdue(m.NodeUnknownSince)
	}
	return m.HasNode || !p.overdue(m.Plan.DeliveredAt)
}

// unseenForLong reports that nobody could look at a machine's node for longer than it takes to repair a connection.
func (p *pass) unseenForLong(m *machine) bool {
	return m.NodeUnknown && !m.NodeUnknownSince.IsZero() && p.overdue(m.NodeUnknownSince)
}

// waitForNewMembers is the wait for somebody to whom the data can go. Where they have been out of sight for long, it is a person who knows whether they are gone.
func (p *pass) waitForNewMembers(staying []*machine) *Wait {
	notes, unseen := make([]note, 0, len(staying)), true
	for _, m := range staying {
		notes = append(notes, note{name: m.Name})
		unseen = unseen && p.unseenForLong(m)
	}
	if unseen {
		return failure(ReasonEtcdStays, about("Nobody has seen the machines that have the cluster's data for long, and all machines with etcd are being deleted", notes)+
			". If their hosts are gone, "+giveUp+"; otherwise repair the connection to them", WakeMachine, WakePlanSecret)
	}
	return waitFor(ReasonEtcdStays, about("waiting for another machine with etcd to be registered: all are being deleted, and the cluster's data are on", notes)+
		". If none is coming, raise the quantity of a pool with etcd; to give the data up, "+giveUp, WakeMachine, WakePlanSecret)
}

// keepMember stays with a member that works although its machine is being deleted, so that others can join it: the init node if it is one. It is nil
// when there is none. The machine gets no other plan. While nobody can look at its node, nobody is sent there: a host that died has reported that
// all is well, too, and a machine with a plan looks like a part of the cluster ever after.
func (p *pass) keepMember(gone []*machine) *machine {
	joinable := func(m *machine) bool {
		return isEtcd(m) && isHeld(m) && m.etcdServes() && m.marks.JoinURL != "" && !m.NodeUnknown
	}
	for _, m := range gone {
		if m.marks.InitNode && m.Plan != nil && joinable(m) {
			return m
		}
	}
	if found := p.collect(joinable); len(found) > 0 {
		return found[0]
	}
	return nil
}
