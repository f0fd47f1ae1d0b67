package planner

import (
	"slices"
	"strings"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/decide/conditions"
)

// lost is the wait for an init node that has started the cluster and cannot be used any more. refused is true when
// another machine could take its place if the user had not chosen an init node. The advice to give up members appears
// only when none may work again, or none has worked for long, because it loses the data.
func (e *election) lost(gone []*machine, refused bool) *Wait {
	message := about("waiting for the init node, which is deleting, failed or without infrastructure; etcd is on",
		notesOf(gone))
	returning := only(e.started(), e.etcd.mayReturn)
	switch id := e.designated(); {
	case refused:
		message += ". Label " + rkev1.InitNodeMachineIDLabel + "=" + id +
			" of the Cluster lets no other machine take its place, " +
			"and one could: set the label to the machine ID of that machine, or remove the label"
	case len(returning) == 0:
		message += ". If they do not come back, delete them, " + giveUp
	default:
		message += whoReturns(gone, returning)
		message += e.lastResort(message, returning)
	}
	return waitFor(ReasonInitNodeLost, message, WakeMachine, WakePlanSecret, WakeControlPlane)
}

// mayReturn reports that a machine has a host, as far as is known, and that its etcd member works or may work again
// soon. The state that Cluster API reports for the machine and its infrastructure says nothing about an existing node.
func (e *etcd) mayReturn(m *machine) bool {
	switch {
	case m.Deleting && !isHeld(m), (m.Phase == phaseFailed || !m.InfrastructureReady) && !m.HasNode && !m.etcdServes():
		return false
	case m.Plan == nil:
		return m.HasNode && (m.NodeLostSince.IsZero() || !e.isOverdue(m.NodeLostSince))
	}
	return e.mayBeMember(m) && e.mayWork(m)
}

// whoReturns describes the machines that may work again, and how a user can help. A working member whose machine
// Cluster API has given up cannot become init node. While that machine is being deleted, it can.
func whoReturns(gone, returning []*machine) string {
	isUnseen := func(m *machine) bool { return m.NodeUnknown }
	isStuck := func(m *machine) bool { return !m.NodeUnknown && m.etcdServes() && !m.Deleting && !m.canBeInit() }
	others := only(returning, func(m *machine) bool {
		return !isUnseen(m) && !isStuck(m) && (m.canBeInit() || !slices.Contains(gone, m))
	})
	stuck, unseen := only(returning, isStuck), only(returning, isUnseen)
	text := ""
	if len(others) > 0 {
		text += about(". Another machine takes its place as soon as its etcd works and it can be joined; that may be",
			notesOf(others))
	}
	if len(stuck) > 0 {
		text += about(". Etcd works, but the Machine has failed or its condition InfrastructureReady is not True:",
			notesOf(stuck)) +
			". Repair that, or else delete one such Machine: it stays until another machine has joined it"
	}
	switch {
	case text != "":
		return text
	case len(unseen) > 0:
		return about(". Drover cannot check the nodes of", notesOf(unseen)) + ": repair the connection to the cluster"
	}
	return about(". Repair etcd on", notesOf(returning))
}

// lastResort is the advice for the case that no member can be repaired. It appears only when no member has
// worked, or was seen, for long.
func (e *election) lastResort(message string, returning []*machine) string {
	down := only(returning, func(m *machine) bool { return !m.NodeUnknown })
	switch {
	case slices.ContainsFunc(returning, func(m *machine) bool { return m.NodeUnknown && !e.etcd.isUnseenForLong(m) }),
		slices.ContainsFunc(down, (*machine).etcdServes):
		return ""
	case len(down) == 0:
		return ". If their hosts are gone for good, delete them, " + giveUp
	}
	advice := about(". Only if etcd can be repaired on none of", notesOf(e.started())) + ", delete them, " + giveUp
	if !e.saidForLong(message, advice) {
		return ""
	}
	return advice
}

// saidForLong reports that the cluster has waited for the same thing for long. The time when a probe began to fail is
// not stored, but a condition stores when its message began. Additional advice stays once it has appeared.
func (e *election) saidForLong(message, more string) bool {
	since := e.s.Now
	said := conditions.Get(e.s.ControlPlane.Status.Conditions, rkev1.ConditionReady)
	if said != nil && strings.HasPrefix(said.Message, message) {
		if said.Message == message+more {
			return true
		}
		if at, err := time.Parse(time.RFC3339, said.LastUpdateTime); err == nil {
			since = at
		}
	}
	return e.isOverdue(since)
}

// only returns the machines for which the predicate is true.
func only(machines []*machine, is func(*machine) bool) []*machine {
	return slices.DeleteFunc(slices.Clone(machines), func(m *machine) bool { return !is(m) })
}

func notesOf(machines []*machine) []note {
	notes := make([]note, 0, len(machines))
	for _, m := range machines {
		notes = append(notes, note{name: m.Name})
	}
	return notes
}
