package planner

import (
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// lost is the wait for an init node that has started the cluster and cannot be used any more. refused says that another machine could take its place, if the
// user had not chosen one. To give members up is advised only when none may work again: it loses the data.
func (p *pass) lost(gone []*machine, refused bool) *Wait {
	message := about("waiting for the init node, which is deleting, failed or without infrastructure; etcd is on", notesOf(gone))
	returning := slices.DeleteFunc(p.started(), func(m *machine) bool { return !p.mayReturn(m) })
	isUnseen := func(m *machine) bool { return m.NodeUnknown }
	unseen := slices.DeleteFunc(slices.Clone(returning), func(m *machine) bool { return !isUnseen(m) })
	switch id := p.designated(); {
	case refused:
		message += ". Label " + rkev1.InitNodeMachineIDLabel + "=" + id + " of the Cluster lets no other machine take its place, and one could: name that one's " +
			"machine ID in the label, or remove it"
	case len(returning) == 0:
		message += ". If they do not come back, delete them, " + giveUp
	case len(unseen) < len(returning):
		message += about(". Another machine takes its place as soon as its etcd works and it can be joined; that may be", notesOf(slices.DeleteFunc(returning, isUnseen)))
	default:
		message += about(". Nobody can look at the nodes of", notesOf(unseen)) + ": repair the connection to the cluster"
		if !slices.ContainsFunc(unseen, func(m *machine) bool { return !p.unseenForLong(m) }) {
			message += ". If their hosts are gone for good, delete them, " + giveUp
		}
	}
	return waitFor(ReasonInitNodeLost, message, WakeMachine, WakePlanSecret, WakeControlPlane)
}

// mayReturn reports that a machine has a host, as far as is known, and may have a member that works, or works again soon.
func (p *pass) mayReturn(m *machine) bool {
	switch {
	case m.Phase == phaseFailed, !m.InfrastructureReady, m.Deleting && !isHeld(m):
		return false
	case m.Plan == nil:
		return m.HasNode && (m.NodeLostSince.IsZero() || !p.overdue(m.NodeLostSince))
	}
	return p.inEtcd(m) && p.mayWork(m)
}

func notesOf(machines []*machine) []note {
	notes := make([]note, 0, len(machines))
	for _, m := range machines {
		notes = append(notes, note{name: m.Name})
	}
	return notes
}
