package planner

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-io/drover/pkg/decide/nodeplan"
	"github.com/drover-io/drover/pkg/decide/planner/render"
)

// rollOut is one pass over one tier: who may be changed now.
type rollOut struct {
	*pass
	tier tier
	// limit is how many machines may be unavailable at a time, 0 for no limit; busy is how many are.
	limit, busy int
	// refused is how many of them only are because their nodes refuse to be restarted while others do not work.
	refused int
	// stoppedAt is the machine that has its new plan and does not work with it: nobody else is changed until it does.
	stoppedAt string
	// failedAt is such a machine that will not work by itself any more, as far as anybody can tell.
	failedAt string
}

// newRollOut renders what every member should have, and counts who is unavailable.
func (p *pass) newRollOut(t tier) *rollOut {
	r := &rollOut{pass: p, tier: t}
	counted := 0
	for _, m := range t.members {
		p.assess(t, m)
		if m.Skip {
			continue
		}
		counted++
		if m.Plan.State.PlanExists && !p.unreachable(m) {
			r.count(m)
		}
	}
	r.limit = concurrency(t.concurrency, counted)
	return r
}

// count finds out whether a machine is unavailable, and whether it stops the roll-out.
func (r *rollOut) count(m *machine) {
	state, works := &m.Plan.State, len(m.unhealthyProbes()) == 0
	m.busy = !state.InSync || m.inDrain() || m.change == nodeplan.ChangeNone && !works
	m.sick = !m.busy && !works
	r.busy += btoi(m.busy)
	r.refused += btoi(m.refuses())
	if !r.fails(m) {
		return
	}
	r.stoppedAt = cmp.Or(r.stoppedAt, m.Name)
	if state.Failed || r.overdue(m.Plan.DeliveredAt) {
		r.failedAt = cmp.Or(r.failedAt, m.Name)
	}
}

// fails reports that a machine has the plan that it should have, and does not work with it. What was refused was not tried.
func (r *rollOut) fails(m *machine) bool {
	state := &m.Plan.State
	if m.change != nodeplan.ChangeNone || m.refuses() {
		return false
	}
	return state.Failed || state.InSync && (len(m.unhealthyProbes()) > 0 || !r.kubeletCurrent(m))
}

// concurrency reads how many of that many machines may be unavailable: a number, a share rounded up, 1 when nothing is said. 0 means
// no limit.
func concurrency(text string, machines int) int {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return n
	}
	share, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || math.IsNaN(share) {
		return 1
	}
	return max(1, int(math.Ceil(min(share, 100)*float64(machines)/100)))
}

// assess renders what a machine should have and compares it with what it has.
func (p *pass) assess(t tier, m *machine) {
	if m.Plan.Malformed != "" {
		m.found = finding{"the plan secret " + m.Plan.Name + " is unreadable: " + m.Plan.Malformed, ReasonConfiguring}
		return
	}
	if again, found := p.startAgain(m); again {
		m.found = found
		return
	}
	if p.keep(m) {
		return
	}
	joinURL, problem := t.join(m)
	if problem != "" {
		m.found = finding{problem, ReasonConfiguring}
		return
	}
	if m.joins = joinURL; p.leave(m) {
		return
	}
	if m.desired, m.found = p.render(m, joinURL); m.found.message != "" || !m.Plan.State.PlanExists {
		return
	}
	had := render.WithoutEtcdProof(m.Plan.State.Plan)
	if m.change = nodeplan.Compare(had, m.desired); m.change == nodeplan.ChangeMajor && p.onlyReleaseData(m) {
		m.late, m.desired = true, p.node(m).Kept(had, m.desired)
		m.change = nodeplan.Compare(had, m.desired)
	}
	if m.change == nodeplan.ChangeNone {
		p.follow(m)
		m.marks.Found = ""
		m.marks.Version = p.s.ControlPlane.Spec.KubernetesVersion
	}
}

// run decides about every member, in the order of names. Those that do not work anyway come first: to change them costs nothing.
// Those whose nodes are lost come last: they hold up the others.
func (r *rollOut) run() {
	for _, m := range r.order() {
		if m.found.message == "" {
			m.found = r.consider(m)
		}
		r.leaveOut(m)
	}
}

func (r *rollOut) order() []*machine {
	return slices.SortedStableFunc(slices.Values(r.tier.members), func(a, b *machine) int {
		return cmp.Or(cmp.Compare(btoi(!a.NodeLostSince.IsZero()), btoi(!b.NodeLostSince.IsZero())), cmp.Compare(btoi(b.sick), btoi(a.sick)))
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// consider decides whether to deliver, and says what is missing.
func (r *rollOut) consider(m *machine) finding {
	state := &m.Plan.State
	switch {
	case !state.PlanExists:
		return r.first(m)
	case m.change == nodeplan.ChangeMinor:
		return r.edit(m)
	case m.change == nodeplan.ChangeMajor:
		return r.major(m)
	case state.Phase == nodeplan.PhaseFailed:
		// The plan was delivered by a server that commands agents by state: this agent has given up for good. Delivered again
		// without a state, it tries as often as others.
		return r.again(m)
	case m.gaveUp() && (m.Retry || m.refused()), m.refused() && r.overridden(m), r.asksTooMuch(m) && !m.PoolPaused && !m.Skip:
		return r.again(m)
	case m.gaveUp():
		return finding{r.failureOf(m) + msgGaveUp, ReasonConfiguring}
	}
	return r.accompany(m)
}

// first decides about a machine without a plan. That may also be a member of etcd whose plan secret was made anew: it may be restarted like others.
func (r *rollOut) first(m *machine) finding {
	switch {
	case !m.roles.ETCD:
		return r.send(r.tier, m)
	case m.inEtcdBefore():
		return r.major(m)
	}
	return r.joinEtcd(m)
}

// accompany says what is missing until a machine works with the plan that it has.
func (r *rollOut) accompany(m *machine) finding {
	if message := r.planProgress(m); message != "" {
		return r.trying(m, message)
	}
	if m.inDrain() {
		return r.undrain(m)
	}
	message := r.nodeProgress(m)
	if m.kept && !r.knows(m) && !r.plansApplied() && (message == "" || message == msgKubelet) { // nobody tells this kubelet to update
		return finding{r.keptMessage(m), ReasonVersionUnknown}
	}
	return finding{message, ReasonConfiguring}
}

// trying is said of a machine whose agent is at its plan. Who refused it tries again, for nothing as long as others do not work: what mends those is not to
// wait for it.
func (r *rollOut) trying(m *machine, message string) finding {
	if m.refuses() {
		if others := r.etcdInTheWay(m); len(others) > 0 && m.SkipProof {
			return r.waitForEtcd(others) // it has the override already that the message advises
		} else if len(others) > 0 {
			return finding{message, ReasonEtcdUnhealthy}
		}
	}
	return finding{message, ReasonConfiguring}
}

// major decides about a change that may restart or drain.
func (r *rollOut) major(m *machine) finding {
	state := &m.Plan.State
	switch {
	case r.isDown(m):
		return r.start(m)
	case (m.PoolPaused || m.Skip || r.failedFor(m)) && m.inDrain():
		return r.undrain(m) // nobody knows for how long, and the others wait for its place
	case m.PoolPaused && !m.carriesOperation():
		return r.paused(m)
	case restartFree(state, m.desired), state.PlanExists && neverApplied(state) && state.FailureCount == 0:
		return r.edit(m)
	case m.Skip, r.failedFor(m), !r.mayStart(m):
		return finding{msgPending, ReasonChangePending}
	}
	return r.disrupt(m)
}

// start decides about a machine that an operation has stopped. Whatever keeps changes from those that run, to leave this one as it is would be to leave it down.
func (r *rollOut) start(m *machine) finding {
	if r.etcdStarting(m) {
		return finding{msgPending, ReasonChangePending}
	}
	return r.send(r.tier, m)
}

// paused is said of a machine in a pool that is paused. What mends the members because of which it refused its plan is not to wait for the end of the pause.
func (r *rollOut) paused(m *machine) finding {
	if m.refuses() && len(r.etcdInTheWay(m)) > 0 {
		return finding{msgPoolPaused, ReasonEtcdUnhealthy}
	}
	return finding{msgPoolPaused, ReasonPoolPaused}
}

// edit delivers a plan that restarts nothing by itself. It brings new tries of what was refused, which another member of etcd must not be at, too, in the same
// minute, or at its restart because this one has given up. One that is left out counts as well: what it does with the plan that it has nobody knows, and without
// it there may be no majority. Where nothing is to be restarted nobody gets new tries of that.
func (r *rollOut) edit(m *machine) finding {
	if !m.refuses() {
		return r.send(r.tier, m)
	}
	inTheWay, others := r.etcdInTheWay(m), r.atRestart(m)
	switch {
	case m.PoolPaused && m.gaveUp():
		return r.paused(m)
	case m.Skip && m.gaveUp():
		return finding{msgPending, ReasonChangePending}
	case len(others) > 0:
		return r.waitForEtcd(others)
	case m.gaveUp() && len(inTheWay) > 0:
		return r.waitForEtcd(inTheWay)
	case m.PoolPaused, m.Skip, len(inTheWay) > 0: // it is not restarted before they work, and not drained for that either
		return r.send(r.tier, m)
	}
	return r.drainAndSend(m)
}

// failedFor reports that a machine does not get the change at which another one has failed, not even when it was drained for it. One that does
// not work either may be changed: it loses nothing.
func (r *rollOut) failedFor(m *machine) bool {
	return r.failedAt != "" && r.failedAt != m.Name && !m.Plan.State.Failed && !m.neverHealthy()
}

// neverHealthy reports that a machine has never worked with the plan that was applied.
func (m *machine) neverHealthy() bool {
	return m.Plan.State.InSync && !m.Plan.ProbesPassed && len(m.unhealthyProbes()) > 0
}

// again delivers a plan once more that failed. It may restart the machine, like the first time.
func (r *rollOut) again(m *machine) finding {
	if m.PoolPaused || m.Skip {
		return r.trying(m, msgFailed)
	}
	if others := r.etcdInTheWay(m); len(others) > 0 {
		return r.waitForEtcd(others)
	}
	if m.refuses() { // its restart is still to come, and it may have been drained no more meanwhile
		return r.drainAndSend(m)
	}
	return r.send(r.tier, m)
}

// disrupt drains a machine and restarts what runs on it, as soon as etcd can do without it.
func (r *rollOut) disrupt(m *machine) finding {
	if others := r.etcdInTheWay(m); len(others) > 0 {
		if m.inDrain() && m.etcdServes() && m.Plan.State.InSync && r.anyOf(others, func(o *machine) bool { return r.broken(o) || o.waitsDrained() }) {
			m.asked = true
			return r.undrain(m) // that may be for long, and they may be waiting for the end of this drain
		}
		return r.waitForEtcd(others)
	}
	return r.drainAndSend(m)
}

// drainAndSend delivers the plan of a machine once its node is drained, if the plan asks for that.
func (r *rollOut) drainAndSend(m *machine) finding {
	delivery, found := r.encode(r.tier, m)
	if found.message != "" {
		return found // whom nothing can be delivered to takes nobody's place, and is not drained for it
	}
	if !m.busy {
		m.busy = true
		r.busy++
	}
	if found := r.drainFirst(m, delivery); found.message != "" {
		return found
	}
	return r.send(r.tier, m)
}

// mayStart reports whether there is room for a machine to be changed, or it has been begun, or it never worked with what it has.
func (r *rollOut) mayStart(m *machine) bool {
	if m.inDrain() || m.Plan.State.Failed || m.neverHealthy() {
		return true
	}
	busy := r.busy - btoi(m.busy)
	if m.sick {
		busy -= r.refused // they wait for those that do not work
	}
	return r.stoppedAt == "" && (r.limit == 0 || busy < r.limit)
}

// leaveOut takes the machines that the tier does not wait for out of its account.
func (r *rollOut) leaveOut(m *machine) {
	if m.found.message == "" || m.found.reason == ReasonPlanTooLarge || m.found.reason == ReasonRenderFailed || m.found.reason == ReasonVersionUnknown {
		return
	}
	switch {
	case m.Skip:
		m.found = finding{msgLeftOut + m.found.message, ReasonLeftOut}
	case r.unreachable(m):
		m.found = finding{"is unreachable since " + m.missingSince() + "; the roll-out goes on without it", ReasonLeftOut}
	case m.roles.OnlyWorker() && m.found.reason == ReasonPoolPaused:
		m.found.reason = ReasonLeftOut
	case m.roles.Server() && !m.NodeLostSince.IsZero():
		m.found.message += msgNodeLost + stamp(m.NodeLostSince)
		if r.missed(m, m.NodeLostSince) {
			m.found.message += msgNodeLostFor
			m.stranded = true
		}
	}
}
