package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	rkev1 "github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1"
	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// What is said in addition about members that are waited for.
const (
	msgEtcdUnseen  = "; nodes cannot be looked at while the connection to the cluster is down"
	msgEtcdRefused = "; a node that refuses to be restarted has not proven that etcd can do without it, and tries again. If it cannot prove that, annotate the Machines " +
		"of all that refuse " + rkev1.EtcdProofSkipAnnotation + "=true to restart one after the other without"
	msgEtcdBroken = "; repair them or delete their Machines, or leave them out with annotation " + rkev1.RollOutSkipAnnotation +
		"=true, if the others are a majority of etcd"
)

// etcdInTheWay names the machines because of which the etcd member of a machine is not restarted now. All others have to be proven
// healthy, by their probes under the plan they have, so that etcd keeps its quorum without this one. Machines that an operator
// left out need not be, as long as the others are a majority of all, or the member of this one is down anyway, or they are none even with this one, which
// does not say that it works.
func (p *pass) etcdInTheWay(m *machine) []note {
	if !m.roles.ETCD {
		return nil
	}
	c := p.companionsOf(m)
	if !m.etcdDown() && !c.quorum(0) && (m.etcdServes() || c.quorum(1)) {
		c.inTheWay = append(c.inTheWay, c.skipped...)
		if c.all == 1 {
			c.inTheWay = append(c.inTheWay, p.coming()...)
		}
	}
	return c.inTheWay
}

// companions are the other members of etcd as one sees them that is to be restarted.
type companions struct {
	all, healthy, broken int
	skipped, inTheWay    []note
}

func (p *pass) companionsOf(m *machine) companions {
	var c companions
	for _, o := range p.otherMembers(m) {
		c.all++
		switch p.standing(m, o) {
		case memberHealthy:
			c.healthy++
		case memberBroken:
			c.broken++
		case memberSkipped:
			c.skipped = append(c.skipped, note{name: o.Name})
		case memberInTheWay:
			c.inTheWay = append(c.inTheWay, note{name: o.Name})
		}
	}
	return c
}

// quorum reports that those that work, and so many more, are a majority of all.
func (c companions) quorum(more int) bool { return c.healthy+more > (c.all+1)/2 }

// atRestart names the other members of etcd that may be at a restart now. If a machine gave up what it refused, those also that may prove at any time that they may.
func (p *pass) atRestart(m *machine) []note {
	var out []note
	for _, o := range p.otherMembers(m) {
		switch {
		case o.Plan == nil, o.Skip, !o.NodeLostSince.IsZero():
		case o.begun(), o.atPlan(), o.refuses() && p.stuck(m) && !p.stuck(o):
			out = append(out, note{name: o.Name})
		}
	}
	return out
}

// waitForEtcd is what is said about a machine that others are in the way of, and what a person can do about them.
func (p *pass) waitForEtcd(inTheWay []note) finding {
	message := about(msgEtcd, inTheWay)
	switch {
	case p.anyOf(inTheWay, func(o *machine) bool { return p.broken(o) && !o.rejects() }):
		message += msgEtcdBroken
	case p.anyOf(inTheWay, func(o *machine) bool { return o.rejects() && !o.PoolPaused && !o.Skip }):
		message += msgEtcdRefused
	case p.anyOf(inTheWay, p.unseen):
		message += msgEtcdUnseen
	}
	return finding{message, ReasonEtcdUnhealthy}
}

// anyOf reports that one of the machines with these names is such a one.
func (p *pass) anyOf(names []note, such func(*machine) bool) bool {
	return slices.ContainsFunc(slices.Concat(p.machines, p.unregistered), func(o *machine) bool {
		return slices.ContainsFunc(names, func(n note) bool { return n.name == o.Name }) && such(o)
	})
}

// proven is the plan of a machine as it is delivered: one that restarts a member of etcd begins with the node's own proof that the others can
// do without it. So does one that follows on a plan whose restart may still be outstanding.
func (p *pass) proven(m *machine) plan.NodePlan {
	switch {
	case !m.roles.ETCD, !m.inEtcdBefore(), p.isDown(m), restartFree(&m.Plan.State, m.desired) && !m.outstanding() && !m.unproven():
		return m.desired
	case (m.change == nodeplan.ChangeNone || !restartFree(&m.Plan.State, m.desired)) && p.overridden(m):
		return m.desired // what restarts nothing by itself is delivered without a look at the others
	}
	return p.withProof(m, m.desired)
}

// withProof is a plan that a member of etcd carries out only when it proves that the others can do without it, the plan itself where there are no
// others.
func (p *pass) withProof(m *machine, want plan.NodePlan) plan.NodePlan {
	proof := render.EtcdProof{
		Others: len(p.otherMembers(m)), Before: m.mayHave(), Delivery: m.Plan.State.Checksum + " " + m.Plan.DeliveredAt.UTC().Format(time.RFC3339Nano),
	}
	// Whose node was to prove something and has not may know of others, and is not overruled because nobody here does any more.
	if proof.Others == 0 && (m.Plan.State.InSync || !render.HasEtcdProof(m.Plan.State.Plan)) {
		return want
	}
	return p.node(m).WithEtcdProof(want, proof)
}

// mayHave are the plans of which a node may have the configuration now.
func (m *machine) mayHave() []plan.NodePlan { return m.Plan.mayHave() }

func (s *PlanSecret) mayHave() []plan.NodePlan {
	state := &s.State
	if state.AppliedPlan == nil {
		return []plan.NodePlan{state.Plan}
	}
	return []plan.NodePlan{*state.AppliedPlan, state.Plan}
}

// overridden reports that an operator has a member restarted without proof, and that by what is known the others can do without it: they work, or its own is down.
func (p *pass) overridden(m *machine) bool {
	if !m.SkipProof || len(p.etcdInTheWay(m)) > 0 {
		return false
	}
	c := p.companionsOf(m)
	return m.etcdDown() || c.broken == 0 && (len(c.skipped) == 0 || c.quorum(0))
}

// outstanding reports that the plan a machine has may still restart it: it was not carried out to its end.
func (m *machine) outstanding() bool {
	state := &m.Plan.State
	return state.Phase == nodeplan.PhaseFailed || render.HasEtcdProof(state.Plan) && !state.InSync
}

// unproven reports that what a machine should have restarts it, or may, while the plan that it has was neither carried out to its end nor has a proof: an
// operator had it delivered so, and that was said of the others as they were then.
func (m *machine) unproven() bool {
	state := &m.Plan.State
	return !state.InSync && (state.AppliedPlan == nil || !restartFree(&nodeplan.State{Plan: *state.AppliedPlan}, m.desired))
}

// again reports that another delivery may run the plan a machine has once more.
func (m *machine) again() bool { return m.gaveUp() || m.outstanding() }

// otherMembers are the other machines that may be members of etcd, with those that are held until they have left it.
func (p *pass) otherMembers(m *machine) []*machine {
	return slices.DeleteFunc(slices.Concat(p.machines, p.unregistered), func(o *machine) bool {
		return o == m || !o.roles.ETCD || o.Deleting && !o.Held || !p.inEtcd(o)
	})
}

// standing is what another member of etcd means for the restart of one.
type standing int

const (
	memberHealthy  standing = iota // it works and stays
	memberBroken                   // it does not work, and that holds up nobody
	memberSkipped                  // it does not work, and an operator has left it out
	memberInTheWay                 // it has to work, or to be gone, first
)

func (p *pass) standing(m, o *machine) standing {
	switch {
	case o.Deleting:
		return p.standingOfLeaver(m, o)
	case p.stays(m, o) && (!m.etcdServes() || !p.unseen(o)):
		return memberHealthy
	case !m.inEtcdBefore() && !o.changing():
		return memberBroken // m has never been a member: others that do not work are no reason to leave it broken too
	case o.Skip:
		return memberSkipped
	case m.helpless() && m.losesNothingBeside(o):
		return memberBroken
	}
	return memberInTheWay
}

// losesNothingBeside reports that another member does not work like this one, or waits for it: both would wait for ever. So they would when both are drained.
func (m *machine) losesNothingBeside(o *machine) bool {
	return o.waits() || m.inDrain() && o.inEtcdBefore() && o.helpless() && !o.begun()
}

// stays reports that another member works, and goes on doing so while one is restarted: one that refused, too, when it is stuck, or a person has neither of them
// prove anything. An agent that only waits for its next try may be at its restart before it says so: of two it comes first.
func (p *pass) stays(m, o *machine) bool {
	return o.etcdHealthy() || m.refused() && o.rejects() && (p.stuck(o) || m.SkipProof && o.SkipProof && !p.stuck(m))
}

// waits reports that a member does not work, or refused its plan and waits for one that does not.
func (m *machine) waits() bool { return m.inEtcdBefore() && (m.failing() || m.refused() && !m.begun()) }

// unseen is hidden as far as a roll-out waits for it: for as long as for a node that is lost, and not for machines that an operator left out.
// What would mend the connection may be what is to be rolled out, and the node's own proof has to do then.
func (p *pass) unseen(o *machine) bool {
	return p.hidden(o) && !o.Skip && (o.NodeUnknownSince.IsZero() || !p.overdue(o.NodeUnknownSince))
}

// hidden reports that a machine may be off without anybody knowing: its node cannot be looked at, although an API server of the cluster
// works. When none does, it may be this roll-out that mends it.
func (p *pass) hidden(o *machine) bool {
	return o.NodeUnknown && slices.ContainsFunc(p.machines, func(c *machine) bool {
		return c.roles.ControlPlane && !c.Deleting && (c.Plan.State.InSync || c.refused()) && !slices.Contains(c.unhealthyProbes(), render.ProbeAPIServer)
	})
}

// failing reports that a machine does not work and is not at a change either.
func (m *machine) failing() bool { return !m.etcdServes() && !m.changing() }

// helpless is failing of the machine that is to be changed: to be drained for that is not to be at it.
func (m *machine) helpless() bool { return !m.etcdServes() && !m.sent && !m.atPlan() }

// standingOfLeaver is standing for a member whose machine is being deleted.
func (p *pass) standingOfLeaver(m, o *machine) standing {
	works := o.Plan != nil && o.Plan.State.Works()
	switch {
	case m.etcdServes() && (p.leaving(o) || o.Plan != nil && !works):
		return memberInTheWay // one leaves or one restarts, never both; one that does not work may be at its restart
	case works && !p.broken(o):
		return memberHealthy
	}
	return memberBroken
}

// coming are machines that were just made to be members of etcd. Of two members none can be restarted without an outage, of three each can.
func (p *pass) coming() []note {
	var out []note
	for _, o := range slices.Concat(p.machines, p.unregistered) {
		if isEtcd(o) && isLive(o) && !o.Skip && !p.inEtcd(o) && !o.delivered() && !p.overdue(o.CreatedAt) {
			out = append(out, note{name: o.Name})
		}
	}
	return out
}

// leaving reports that a deleting machine's etcd member is being removed: the machine is held for it, and nobody is joined to it any
// more, which is what the removal waits for first, or the member does not work. Then the removal waits for nobody: until it is done
// the member counts towards the quorum, and each restart that frees the machine of somebody joined to it would break that.
func (p *pass) leaving(m *machine) bool {
	return m.Held && (p.broken(m) || !slices.ContainsFunc(p.machines, func(o *machine) bool {
		return !o.Deleting && m.Marks.JoinURL != "" && o.Marks.JoinedTo == m.Marks.JoinURL
	}))
}

// broken reports that a machine's node is lost, or that its plan failed or has not worked for a while. Whoever removes members has to see
// it the same way (planstore.Broken), or the two wait for each other.
func (p *pass) broken(m *machine) bool {
	switch {
	case !m.NodeLostSince.IsZero():
		return true
	case m.Plan == nil:
		return false
	case m.Plan.Malformed != "":
		return true
	}
	return m.Plan.State.PlanExists && !m.Plan.State.Works() && (m.Plan.State.Failed || p.overdue(m.Plan.DeliveredAt))
}

// inEtcd reports that a machine may have a member of etcd. One that got its first plan and was never heard of again has none, and one
// that a restore has stopped is not in the new cluster until it starts again.
func (p *pass) inEtcd(m *machine) bool {
	switch {
	case m.Plan == nil:
		return m.delivered()
	case m.stopped():
		return m.sent
	case m.sent || m.inEtcdBefore() || m.Plan.State.FailureCount > 0 || m.Plan.Malformed != "":
		return true
	}
	return m.Plan.State.PlanExists && !p.overdue(m.Plan.DeliveredAt)
}

// inEtcdBefore reports that a machine became part of the cluster.
func (m *machine) inEtcdBefore() bool {
	return m.HasNode || m.marks.JoinURL != "" || m.Plan != nil && !neverApplied(&m.Plan.State)
}

// etcdHealthy reports that the member of a machine is proven to work, and to go on doing so.
func (m *machine) etcdHealthy() bool {
	return m.etcdWorks() && m.Plan.State.InSync && !m.inDrain()
}

// etcdWorks reports that the member of a machine works, and that nothing new was begun with it.
func (m *machine) etcdWorks() bool { return m.etcdServes() && !m.begun() }

// begun reports that something new was begun with a machine in this pass.
func (m *machine) begun() bool { return m.sent || m.asked }

// rejects reports that the member of a machine works, and that nothing new was begun with it since it refused its plan. Who was drained for that plan
// stays so.
func (m *machine) rejects() bool {
	return m.etcdWorks() && m.refuses() && (!m.inDrain() || m.Plan.Drain.over())
}

// waitsDrained reports that the member of a machine works, and is drained for a change that it does not get yet.
func (m *machine) waitsDrained() bool { return m.etcdWorks() && m.Plan.Drain.over() }

// etcdDown reports that the member of a machine is down, and nothing is lost when it is restarted. Its node says so: another part that does not work, or a
// report that has not come, says nothing about that.
func (m *machine) etcdDown() bool {
	status, told := m.Plan.State.ProbeStatuses[render.ProbeETCD]
	return told && !status.Healthy
}

// etcdServes reports that the member of a machine works: its plan secret says so, and its node is there.
func (m *machine) etcdServes() bool { return m.NodeLostSince.IsZero() && EtcdServes(m.Plan) }

// EtcdServes reports that the last report of a machine proves that its member works. A plan that the node refuses because etcd cannot do without
// it changes nothing about that. A plan of a restore that was applied proves the opposite, etcd is down with it. Whoever removes members asks the
// same question (planstore.EtcdServes), or a change that waits for a removal is one that the removal waits for.
func EtcdServes(secret *PlanSecret) bool {
	if secret == nil || secret.Malformed != "" || secret.stopped() || secret.restored() {
		return false
	}
	return (secret.State.InSync && !secret.State.Failed || secret.refused()) && len(secret.unhealthyProbes()) == 0
}

func (m *machine) refused() bool { return m.Plan.refused() }

// refuses reports that a node refused the plan that it has, and has not carried it out before either.
func (m *machine) refuses() bool { return m.Plan != nil && m.refused() && !m.Plan.State.InSync }

// refused reports that the node did not carry its plan out, because it could not prove that etcd can do without it.
func (s *PlanSecret) refused() bool {
	state := &s.State
	if !render.HasEtcdProof(state.Plan) || state.FailedChecksum != state.Checksum {
		return false
	}
	failure, ok := nodeplan.FailureOf(state.FailedOutput)
	// Agents of other makes do not say where they failed, but keep the output, which is empty once the proof was made.
	return ok && failure.Instruction == render.EtcdProofInstruction || !ok && len(state.FailedOutput[render.EtcdProofInstruction]) > 0
}

// asksTooMuch reports that a node refused its plan, which asks for more other members than it would of those that are left: some have left since it was
// delivered, and that node waits for more than it has to, if not for ever.
func (p *pass) asksTooMuch(m *machine) bool {
	if !m.refuses() {
		return false
	}
	proof := render.EtcdProofOf(m.Plan.State.Plan)
	proof.Others = len(p.otherMembers(m))
	return m.needs() > proof.Needs()
}

// needs is how many other members the node of a machine has to prove to be well.
func (m *machine) needs() int { return render.EtcdProofOf(m.Plan.State.Plan).Needs() }

// stuck reports that a machine that rejects its plan goes on doing so: its agent does not try that any more, or asks for more members than there are. So
// somebody else who refused may be restarted. Two who wait for each other while both may still prove what they need wait for their agents.
func (p *pass) stuck(m *machine) bool {
	return m.spent() || m.Plan.State.Phase == nodeplan.PhaseFailed || m.needs() > len(p.otherMembers(m))
}

// changing reports that a machine is at its plan, by this pass or one before.
func (m *machine) changing() bool {
	return m.Plan != nil && m.inEtcdBefore() && (m.begun() || m.inDrain() || m.atPlan())
}

// atPlan reports that a plan was delivered before that is neither carried out nor failed.
func (m *machine) atPlan() bool {
	return m.Plan.State.PlanExists && !m.Plan.State.InSync && !m.Plan.State.Failed
}

// misplaces says why a machine does not get a plan that has it keep the cluster's data elsewhere than they are. For a member that may have the
// configuration of that plan already nothing has to be read: its data stay where they are.
func (p *pass) misplaces(m *machine, desired plan.NodePlan) string {
	same := func(have plan.NodePlan) bool { return render.SameConfig(have, desired) }
	if m.roles.ETCD && m.inEtcdBefore() && slices.ContainsFunc(m.mayHave(), same) {
		return ""
	}
	return cmp.Or(p.moves(m, desired), p.splits(m, desired))
}

// moves says why a member of etcd does not get a plan that has it begin anew in an empty directory: the machine that starts the cluster would start
// a second one, and the others would lose their part of the data. Only a restore may do that. What the node may have already is no move: an
// edit that was delivered and not carried out can be taken back.
func (p *pass) moves(m *machine, desired plan.NodePlan) string {
	if !m.roles.ETCD || !m.inEtcdBefore() || p.restoring || m.down() {
		return ""
	}
	wanted, says := render.HomeOf(desired)
	var homes []render.Home
	for _, have := range m.mayHave() {
		if home, known := render.HomeOf(have); known {
			homes = append(homes, home)
		}
	}
	if !says || len(homes) == 0 || slices.Contains(homes, wanted) {
		return ""
	}
	had := homes[0]
	if had.Runtime != wanted.Runtime {
		return fmt.Sprintf("spec.kubernetesVersion: the node has the cluster's data as %s, which %s does not take over: name a version of %s",
			had.Runtime, wanted.Runtime, had.Runtime)
	}
	return fmt.Sprintf("%s: the node has the cluster's data in %s, and would begin without them in %s: "+
		"set it back, it cannot change once there are machines", p.movedBy(m), had.Dir, wanted.Dir)
}

// movedBy is the field that moves a machine away from its data: the one that names the directory now, or named it before and does not any more.
func (p *pass) movedBy(m *machine) string {
	in := p.inputFor(m, "")
	now := render.DataDirField(in)
	if now == "" && p.status.AppliedSpec != nil {
		in.ControlPlane.Spec = *p.status.AppliedSpec
		now = render.DataDirField(in)
	}
	return cmp.Or(now, render.FieldDataDir)
}
