package planner

import (
	"slices"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
)

// Additions to messages about members that block a restart.
const (
	msgEtcdUnseen  = "; Drover cannot check nodes while the connection to the cluster is down"
	msgEtcdRefused = "; a node that refuses its restart has not proven that etcd works without it, and " +
		"tries again. If it cannot prove that, annotate the Machines of all such nodes " +
		rkev1.EtcdProofSkipAnnotation + "=true to restart them one at a time without the proof"
	msgEtcdBroken = "; repair them or delete their Machines, or leave them out with annotation " +
		rkev1.RollOutSkipAnnotation + "=true, if the others are a majority of etcd"
)

// etcd decides when the etcd member of a machine may restart. Every other member has a weight in that decision, which
// follows from its MemberState:
//
//	Healthy   counts as healthy. It blocks a working machine while the node of the member cannot be seen.
//	Refused   blocks. It counts as healthy for a machine that refused too, if it cannot go on by itself.
//	Changing  blocks, except as below.
//	Down      blocks, except as below.
//	Leaving   blocks a machine that works.
//
// A member that would block has another weight in three cases. It counts as broken for a machine that never joined, if
// the member is not changing. It counts as skipped if the user left its machine out. It counts as broken for a machine
// that has nothing to lose, if both would wait for each other.
type etcd struct{ *cluster }

// weight is what another etcd member means for the restart of this one.
type weight int

const (
	countsHealthy weight = iota // it works, and keeps working
	countsBroken                // it does not work, and does not block
	countsSkipped               // it does not work, and the user left it out
	blocks                      // it must work or be gone first
)

// weigh returns the weight of the member of o in the decision to restart the member of m.
func (e *etcd) weigh(m, o *machine) weight {
	switch {
	case o.Deleting:
		return e.weighLeaver(m, o)
	case e.staysHealthy(m, o) && (!m.etcdServes() || !e.isUnseen(o)):
		return countsHealthy
	case !m.hasJoined() && !o.isChanging():
		return countsBroken // m was never a member: broken others are no reason to leave it broken
	case o.Skip:
		return countsSkipped
	case m.hasNothingToLose() && wouldDeadlock(m, o):
		return countsBroken
	}
	return blocks
}

// weighLeaver is the weight of a member whose machine is being deleted.
func (e *etcd) weighLeaver(m, o *machine) weight {
	switch {
	case m.etcdServes() && e.isLeaving(o):
		return blocks // one leaves or one restarts, never both; a member that fails may be restarting
	case o.Plan != nil && o.Plan.State.Works() && !e.isBroken(o):
		return countsHealthy
	}
	return countsBroken
}

// staysHealthy reports that the member of o works, and keeps working while that of m restarts. A member that refused
// its plan counts when m refused too and o is stuck. It also counts when the user skips the proof of both and m is not
// stuck. An agent that only waits for its next try may restart before it reports, so it comes first.
func (e *etcd) staysHealthy(m, o *machine) bool {
	switch o.memberState() {
	case MemberHealthy:
		return true
	case MemberRefused:
		return m.hasRefused() && (e.isStuck(o) || m.SkipProof && o.SkipProof && !e.isStuck(m))
	default:
		return false
	}
}

// wouldDeadlock reports that m, which has nothing to lose, and o would wait for each other forever: o is down, or it
// refused its plan, or both are drained and o does not work.
func wouldDeadlock(m, o *machine) bool {
	switch {
	case !o.hasJoined():
		return false
	case o.memberState() == MemberDown:
		return true
	}
	return !o.isStarting() && (o.hasRefused() || m.isInDrain() && o.hasNothingToLose())
}

// otherWeights counts the other etcd members, as seen from the member that is to restart.
type otherWeights struct {
	all, healthy, broken int
	skipped, blocking    []note
}

// hasQuorum reports that the healthy others, with as many more members as given, are a majority of all members.
func (c otherWeights) hasQuorum(more int) bool { return c.healthy+more > (c.all+1)/2 }

func (e *etcd) weighOthers(m *machine) otherWeights {
	var c otherWeights
	for _, o := range e.otherMembers(m) {
		c.all++
		switch e.weigh(m, o) {
		case countsHealthy:
			c.healthy++
		case countsBroken:
			c.broken++
		case countsSkipped:
			c.skipped = append(c.skipped, note{name: o.Name})
		case blocks:
			c.blocking = append(c.blocking, note{name: o.Name})
		}
	}
	return c
}

// blockers names the machines that block a restart of this machine's etcd member. Machines that the user left out do
// not block in three cases. The healthy others are a majority of all members. This member is down anyway. Or it is not
// known to work, and there is no majority even with it.
func (e *etcd) blockers(m *machine) []note {
	if !m.roles.ETCD {
		return nil
	}
	c := e.weighOthers(m)
	if !m.reportsEtcdDown() && !c.hasQuorum(0) && (m.etcdServes() || c.hasQuorum(1)) {
		c.blocking = append(c.blocking, c.skipped...)
		if c.all == 1 {
			c.blocking = append(c.blocking, e.upcoming()...)
		}
	}
	return c.blocking
}

// otherMembers are the other machines that may be members of etcd.
func (e *etcd) otherMembers(m *machine) []*machine {
	return slices.DeleteFunc(e.all(), func(o *machine) bool { return o == m || !e.hasMember(o) })
}

// upcoming are new machines that will become etcd members. Of two members none can restart without an outage, of three
// each can.
func (e *etcd) upcoming() []note {
	return notesOf(only(e.all(), func(o *machine) bool {
		isNew := isEtcd(o) && isLive(o) && !o.Skip && !e.mayBeMember(o) && !o.gotPlan()
		return isNew && !e.isOverdue(o.CreatedAt)
	}))
}

// restarting names the other etcd members that may be restarting now: they begin a change, or have a plan in progress.
// When this machine is stuck with a plan that it refused, members that refused theirs count too, unless they are stuck.
// They may give their proof and restart at any time.
func (e *etcd) restarting(m *machine) []note {
	return notesOf(only(e.otherMembers(m), func(o *machine) bool {
		if o.Plan == nil || o.Skip || !o.NodeLostSince.IsZero() {
			return false
		}
		return o.isStarting() || o.isApplying() || o.isRefusing() && e.isStuck(m) && !e.isStuck(o)
	}))
}

// blockedBy is the finding for a machine that other members block, with advice for the user.
func (e *etcd) blockedBy(blockers []note) finding {
	message := about(msgEtcd, blockers)
	refused := func(o *machine) bool { return o.memberState() == MemberRefused }
	switch {
	case e.anyOf(blockers, func(o *machine) bool { return e.isBroken(o) && !refused(o) }):
		message += msgEtcdBroken
	case e.anyOf(blockers, func(o *machine) bool { return refused(o) && !o.PoolPaused && !o.Skip }):
		message += msgEtcdRefused
	case e.anyOf(blockers, e.isUnseen):
		message += msgEtcdUnseen
	}
	return finding{message, ReasonEtcdUnhealthy}
}

// anyOf reports that the predicate is true for one of the named machines.
func (e *etcd) anyOf(names []note, is func(*machine) bool) bool {
	return slices.ContainsFunc(e.all(), func(o *machine) bool {
		return slices.ContainsFunc(names, func(n note) bool { return n.name == o.Name }) && is(o)
	})
}
