package planner

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/drover-io/drover/pkg/apis/rke.cattle.io/v1/plan"
	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// Class is what happens to a machine.
type Class string

// The classes. The planner itself uses only the first three. Cluster API replaces, adds and removes machines.
const (
	// ClassNone means that nothing happens on the node.
	ClassNone Class = "None"
	// ClassInPlace means that files change, and nothing restarts.
	ClassInPlace Class = "InPlace"
	// ClassRestart means that the distribution on the node restarts, perhaps in another version.
	ClassRestart Class = "Restart"
	// ClassReplace means that a new machine replaces this one.
	ClassReplace Class = "Replace"
	// ClassAdd means that a new machine is added.
	ClassAdd Class = "Add"
	// ClassRemove means that the machine is removed without a replacement.
	ClassRemove Class = "Remove"
)

// Outlook is what will happen to all machines, now or when their turn comes.
type Outlook struct {
	// Blocked says why no plan can be made for any machine, empty when plans can be made.
	Blocked string
	// Tiers in the order in which they are configured. Each has members.
	Tiers []TierOutlook
	// Others are machines that no tier configures: they are deleting, have no plan Secret yet, or have no role.
	Others []MachineOutlook
	// Operations were requested and have not ended. They come before the tiers.
	Operations []OperationOutlook
	// Warnings are oddities of the configuration.
	Warnings []render.Warning
}

// TierOutlook is a group of machines that are configured together.
type TierOutlook struct {
	Name string
	// Limit is how many machines may be unavailable at a time, 0 for any number.
	Limit int
	// Machines in the order of the rollout.
	Machines []MachineOutlook
}

// MachineOutlook is what will happen to one machine.
type MachineOutlook struct {
	Name string
	// Class is None, InPlace or Restart.
	Class Class
	// Drained is true when the pods leave the node before the change.
	Drained bool
	// Held says why a requested change does not come, or why nothing is known yet.
	Held string
	// Problem says why there is no plan for the machine. The user has to solve it.
	Problem string

	desired plan.NodePlan
	known   bool
}

// Assess says what will happen to each machine after all waits have ended. Unlike Decide, it covers all tiers, whatever
// holds up the first of them, and also covers paused clusters.
func Assess(s Snapshot) Outlook {
	p := newPass(&s)
	out := Outlook{Operations: operationsOf(&s)}
	if v := stepElect(p); v.stop {
		out.Blocked = v.wait.Message
	} else {
		stepJoin(p)
		for _, t := range []tier{p.initTier(), p.etcdTier(), p.controlPlaneTier(), p.workerTier()} {
			if len(t.members) > 0 {
				out.Tiers = append(out.Tiers, p.newRollOut(t).outlook())
			}
		}
	}
	for _, m := range p.all() {
		if held := m.outside(out.Blocked); held != "" {
			out.Others = append(out.Others, MachineOutlook{Name: m.Name, Class: ClassNone, Held: held})
		}
	}
	out.Warnings = sortedWarnings(p.warnings)
	return out
}

// outside says why a machine is in no tier, empty when it is in one.
func (m *machine) outside(blocked string) string {
	switch {
	case m.Deleting:
		return "is being deleted"
	case m.Plan == nil:
		return "has no plan yet"
	case m.isUnsupported():
		return msgUnsupported
	case m.roles == render.Roles{}:
		return "has no role"
	}
	return blocked
}

func (r *rollOut) outlook() TierOutlook {
	out := TierOutlook{Name: r.tier.name, Limit: r.limit}
	for _, m := range r.order() {
		out.Machines = append(out.Machines, r.expect(m))
	}
	return out
}

// expect is the outlook of one member.
func (r *rollOut) expect(m *machine) MachineOutlook {
	out := MachineOutlook{Name: m.Name, Class: ClassNone}
	found := m.found
	if found.message == "" {
		out.desired, out.known = m.desired, true
		_, found = r.encode(m)
	}
	switch {
	case found.reason == ReasonRenderFailed || found.reason == ReasonPlanTooLarge:
		out.Problem = found.message
		return out
	case found.message != "":
		out.Held = found.message
		return out
	case !m.Plan.State.PlanExists:
		out.Held = "has no plan yet"
		return out
	}
	out.Class = classOf(m.Plan.State.Plan, m.desired)
	if out.Class == ClassRestart && !m.down() {
		_, out.Drained = r.drains.toDrain(m)
	}
	out.Held = r.heldUp(m)
	return out
}

// heldUp says why a change waits for the user.
func (r *rollOut) heldUp(m *machine) string {
	switch {
	case m.keepsPlan && r.isPlanKnown(m):
		return ""
	case m.keepsPlan:
		return m.keptMessage()
	case m.change != nodeplan.ChangeMajor, m.down():
		return ""
	case m.PoolPaused && !m.onlyEndsOperation():
		return "the machine pool is paused"
	case m.Skip && !restartFree(&m.Plan.State, m.desired):
		return "is left out of roll-outs by annotation"
	}
	return ""
}

// classOf is the class of the change from one plan to another. It ignores the copy of the spec that snapshots contain:
// every edit changes that copy, and the node does not react to it.
func classOf(before, after plan.NodePlan) Class {
	before, after = render.WithoutEtcdProof(before), render.WithoutEtcdProof(after)
	before.Files, after.Files = withoutMetadata(before.Files), withoutMetadata(after.Files)
	switch nodeplan.Compare(before, after) {
	case nodeplan.ChangeNone:
		return ClassNone
	case nodeplan.ChangeMinor:
		return ClassInPlace
	case nodeplan.ChangeMajor:
	}
	if restartFree(&nodeplan.State{Plan: before}, after) {
		return ClassInPlace
	}
	return ClassRestart
}

func withoutMetadata(files []plan.File) []plan.File {
	return slices.DeleteFunc(slices.Clone(files), render.IsSnapshotMetadata)
}

// ClassBetween is the class of one machine's change from the desired plan of one snapshot to that of another. The
// current plan of the machine does not matter. A problem that appears or disappears is a change in place: the node gets
// no plan, or gets one again.
func ClassBetween(before, after MachineOutlook) Class {
	switch {
	case before.known && after.known && before.Problem == after.Problem:
		return classOf(before.desired, after.desired)
	case before.Problem != after.Problem:
		return ClassInPlace
	}
	return ClassNone
}

// Stronger reports that a class has more effect on a machine than another.
func (c Class) Stronger(than Class) bool {
	order := []Class{ClassNone, ClassInPlace, ClassAdd, ClassRestart, ClassRemove, ClassReplace}
	return slices.Index(order, c) > slices.Index(order, than)
}

// LimitText is how many machines of a tier change at a time, in words.
func (t TierOutlook) LimitText() string {
	return cmp.Or(map[int]string{0: "all at once", 1: "one at a time"}[t.Limit], strconv.Itoa(t.Limit)+" at a time")
}

// RolesText lists the roles that a machine's labels give it.
func RolesText(labels map[string]string) string { return rolesOf(labels).String() }
