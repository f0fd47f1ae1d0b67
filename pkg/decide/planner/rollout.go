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

// rollOut is one pass over one tier. It decides which machines may change now.
type rollOut struct {
	*pass
	tier tier
	// limit is how many machines may be unavailable at a time, 0 for no limit. unavailable is how many are.
	limit, unavailable int
	// refusing is how many of them are unavailable only because their nodes refuse to restart while others do not work.
	refusing int
	// stoppedAt is the machine that has its new plan and does not work with it. No other machine changes until it does.
	stoppedAt string
	// failedAt is such a machine that, as far as is known, will not work by itself.
	failedAt string
}

// newRollOut renders the plan of every member, and counts the unavailable machines.
func (p *pass) newRollOut(t tier) *rollOut {
	r := &rollOut{pass: p, tier: t}
	counted := 0
	for _, m := range t.members {
		r.assess(m)
		if m.Skip {
			continue
		}
		counted++
		if m.Plan.State.PlanExists && !p.isUnreachable(m) {
			r.countUnavailable(m)
		}
	}
	r.limit = concurrency(t.concurrency, counted)
	return r
}

// countUnavailable finds out whether a machine is unavailable, and whether it stops the rollout.
func (r *rollOut) countUnavailable(m *machine) {
	state, works := &m.Plan.State, len(m.unhealthyProbes()) == 0
	m.isUnavailable = !state.InSync || m.isInDrain() || m.change == nodeplan.ChangeNone && !works
	m.isUnhealthy = !m.isUnavailable && !works
	r.unavailable += btoi(m.isUnavailable)
	r.refusing += btoi(m.isRefusing())
	if !r.hasFailed(m) {
		return
	}
	r.stoppedAt = cmp.Or(r.stoppedAt, m.Name)
	if state.Failed || r.isOverdue(m.Plan.DeliveredAt) {
		r.failedAt = cmp.Or(r.failedAt, m.Name)
	}
}

// hasFailed reports that a machine has its desired plan and does not work with it. A refused plan was not tried, so it
// does not count.
func (r *rollOut) hasFailed(m *machine) bool {
	state := &m.Plan.State
	if m.change != nodeplan.ChangeNone || m.isRefusing() {
		return false
	}
	return state.Failed || state.InSync && (len(m.unhealthyProbes()) > 0 || !r.kubeletCurrent(m))
}

// concurrency parses how many of the machines may be unavailable: a number, or a percentage that is rounded up. The
// default is 1, and 0 means no limit.
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

// assess renders the desired plan of a machine and compares it with its current plan.
func (r *rollOut) assess(m *machine) {
	if m.Plan.Malformed != "" {
		m.found = finding{"the plan secret " + m.Plan.Name + " is unreadable: " + m.Plan.Malformed, ReasonConfiguring}
		return
	}
	if again, found := r.startAgain(m); again {
		m.found = found
		return
	}
	r.pinAgent(m)
	if r.keepUnknown(m) {
		return
	}
	joinURL, problem := r.tier.join(m)
	if problem != "" {
		m.found = finding{problem, ReasonConfiguring}
		return
	}
	if m.joins = joinURL; r.keepFound(m) {
		r.addAgentStep(m)
		return
	}
	if m.desired, m.found = r.plans.render(m, joinURL); m.found.message != "" || !m.Plan.State.PlanExists {
		return
	}
	had := render.WithoutEtcdProof(m.Plan.State.Plan)
	if m.change = nodeplan.Compare(had, m.desired); m.change == nodeplan.ChangeMajor && r.causes.isOnlyReleaseData(m) {
		m.isDeferred, m.desired = true, r.node(m).Kept(had, m.desired)
		r.addAgentStep(m)
	}
	if m.change == nodeplan.ChangeNone {
		r.pinVersion(m)
		m.marks.Found = ""
		m.marks.Version = r.s.ControlPlane.Spec.KubernetesVersion
	}
}

// run decides about every member, by name. Machines that do not work come first, because changing them costs nothing.
// Machines with lost nodes come last, because they hold up the others.
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
		isLost := func(m *machine) int { return btoi(!m.NodeLostSince.IsZero()) }
		return cmp.Or(cmp.Compare(isLost(a), isLost(b)), cmp.Compare(btoi(b.isUnhealthy), btoi(a.isUnhealthy)))
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
	switch {
	case m.state == StateNew:
		return r.deliverFirst(m)
	case m.change == nodeplan.ChangeMinor:
		return r.changeMinor(m)
	case m.change == nodeplan.ChangeMajor:
		return r.changeMajor(m)
	case r.isRetryDue(m):
		return r.retry(m)
	case m.hasGivenUp():
		return finding{r.progress.failureOf(m) + msgGaveUp, ReasonConfiguring}
	}
	return r.awaitPlan(m)
}

// isRetryDue reports that the node does not go on with its plan by itself, and that another delivery changes that.
func (r *rollOut) isRetryDue(m *machine) bool {
	switch {
	case m.Plan.State.Phase == nodeplan.PhaseFailed:
		// A server that controls agents by state delivered the plan, and this agent has given up permanently. After a
		// delivery without a state, it tries as often as others.
		return true
	case m.hasGivenUp() && (m.Retry || m.hasRefused()), m.hasRefused() && r.etcd.isProofSkipped(m):
		return true
	}
	return r.etcd.asksTooMuch(m) && !m.PoolPaused && !m.Skip
}

// deliverFirst decides about a machine without a plan. It may be an etcd member whose plan Secret was recreated. Such a
// member may restart like others.
func (r *rollOut) deliverFirst(m *machine) finding {
	switch {
	case !m.roles.ETCD:
		return r.send(m)
	case m.hasJoined():
		return r.changeMajor(m)
	}
	return r.joinEtcd(m)
}

// awaitPlan says what a machine still waits for until it works with its current plan.
func (r *rollOut) awaitPlan(m *machine) finding {
	if message := r.progress.ofPlan(m); message != "" {
		return r.awaitTries(m, message)
	}
	if m.isInDrain() {
		return r.undrain(m)
	}
	message := r.progress.ofNode(m)
	// No plan makes this kubelet update.
	if m.keepsPlan && !r.isPlanKnown(m) && !r.arePlansApplied() && (message == "" || message == msgKubelet) {
		return finding{m.keptMessage(), ReasonVersionUnknown}
	}
	return finding{message, ReasonConfiguring}
}

// awaitTries is the finding for a machine whose agent works on its plan. A node that refused its plan tries again,
// without success while others do not work. The repair of those others must not wait for it.
func (r *rollOut) awaitTries(m *machine, message string) finding {
	if m.isRefusing() {
		if others := r.etcd.blockers(m); len(others) > 0 && m.SkipProof {
			return r.etcd.blockedBy(others) // the operator already uses the override that the message recommends
		} else if len(others) > 0 {
			return finding{message, ReasonEtcdUnhealthy}
		}
	}
	return finding{message, ReasonConfiguring}
}

// changeMajor decides about a change that may restart or drain the machine.
func (r *rollOut) changeMajor(m *machine) finding {
	state := &m.Plan.State
	switch {
	case m.down():
		return r.startStopped(m)
	case (m.PoolPaused || m.Skip || r.isHeldByFailure(m)) && m.isInDrain():
		return r.undrain(m) // that may take long, and the others wait for its place
	case m.PoolPaused && !m.onlyEndsOperation():
		return r.awaitPool(m)
	case restartFree(state, m.desired), state.PlanExists && neverApplied(state) && state.FailureCount == 0:
		return r.changeMinor(m)
	case m.Skip, r.isHeldByFailure(m), !r.mayStart(m):
		return finding{msgPending, ReasonChangePending}
	}
	return r.disrupt(m)
}

// startStopped decides about a machine that an operation has stopped. Starting it is always allowed, except that etcd
// members start one after the other.
func (r *rollOut) startStopped(m *machine) finding {
	if r.etcdStarting(m) {
		return finding{msgPending, ReasonChangePending}
	}
	return r.send(m)
}

// awaitPool is the finding for a machine in a paused pool. If it refused its plan because of other members, their
// repair must not wait for the end of the pause.
func (r *rollOut) awaitPool(m *machine) finding {
	if m.isRefusing() && len(r.etcd.blockers(m)) > 0 {
		return finding{msgPoolPaused, ReasonEtcdUnhealthy}
	}
	return finding{msgPoolPaused, ReasonPoolPaused}
}

// changeMinor delivers a plan that restarts nothing by itself. After a refusal, the delivery brings new tries of the
// refused plan, which may restart the node. Another etcd member must not have its tries or its restart in the same
// minute. A machine that is left out counts as well: what it does with its plan is unknown, and etcd may need it for a
// majority. Machines that must not restart get no new tries.
func (r *rollOut) changeMinor(m *machine) finding {
	if !m.isRefusing() {
		return r.send(m)
	}
	inTheWay, others := r.etcd.blockers(m), r.etcd.restarting(m)
	switch {
	case m.PoolPaused && m.hasGivenUp():
		return r.awaitPool(m)
	case m.Skip && m.hasGivenUp():
		return finding{msgPending, ReasonChangePending}
	case len(others) > 0:
		return r.etcd.blockedBy(others)
	case m.hasGivenUp() && len(inTheWay) > 0:
		return r.etcd.blockedBy(inTheWay)
	case m.PoolPaused, m.Skip, len(inTheWay) > 0: // it does not restart or drain before the others work
		return r.send(m)
	}
	return r.drainAndSend(m)
}

// isHeldByFailure reports that a machine does not get a change that failed on another machine, even if it was drained
// for the change. A machine that does not work either may change: it loses nothing.
func (r *rollOut) isHeldByFailure(m *machine) bool {
	return r.failedAt != "" && r.failedAt != m.Name && !m.Plan.State.Failed && !m.hasNeverWorked()
}

// retry delivers a failed plan once more. It may restart the machine, like the first delivery.
func (r *rollOut) retry(m *machine) finding {
	if m.PoolPaused || m.Skip {
		return r.awaitTries(m, msgFailed)
	}
	if others := r.etcd.blockers(m); len(others) > 0 {
		return r.etcd.blockedBy(others)
	}
	if m.isRefusing() { // its restart is still to come, and its drain may have ended meanwhile
		return r.drainAndSend(m)
	}
	return r.send(m)
}

// disrupt drains a machine and restarts the distribution on it, as soon as etcd can do without it.
func (r *rollOut) disrupt(m *machine) finding {
	if others := r.etcd.blockers(m); len(others) > 0 {
		isSlow := func(o *machine) bool {
			return r.etcd.isBroken(o) || o.etcdStaysUp() && o.Plan.Drain.isDone()
		}
		if m.isInDrain() && m.etcdServes() && m.Plan.State.InSync && r.etcd.anyOf(others, isSlow) {
			m.getsDrain = true
			return r.undrain(m) // the wait may be long, and the others may wait for the end of this drain
		}
		return r.etcd.blockedBy(others)
	}
	return r.drainAndSend(m)
}

// drainAndSend delivers the plan of a machine after its node is drained, if the plan asks for a drain.
func (r *rollOut) drainAndSend(m *machine) finding {
	delivery, found := r.encode(m)
	if found.message != "" {
		return found // a machine that can get no plan takes no place, and is not drained
	}
	if !m.isUnavailable {
		m.isUnavailable = true
		r.unavailable++
	}
	if found := r.drainFirst(m, delivery); found.message != "" {
		return found
	}
	return r.send(m)
}

// mayStart reports that a machine may start its change: there is room, its change has begun, or it never worked with
// its current plan.
func (r *rollOut) mayStart(m *machine) bool {
	if m.isInDrain() || m.Plan.State.Failed || m.hasNeverWorked() {
		return true
	}
	unavailable := r.unavailable - btoi(m.isUnavailable)
	if m.isUnhealthy {
		unavailable -= r.refusing // they wait for the machines that do not work
	}
	return r.stoppedAt == "" && (r.limit == 0 || unavailable < r.limit)
}

// leaveOut marks the machines that the tier does not wait for.
func (r *rollOut) leaveOut(m *machine) {
	needsUser := []Reason{ReasonPlanTooLarge, ReasonRenderFailed, ReasonVersionUnknown}
	if m.found.message == "" || slices.Contains(needsUser, m.found.reason) {
		return
	}
	switch {
	case m.Skip:
		m.found = finding{msgLeftOut + m.found.message, ReasonLeftOut}
	case r.isUnreachable(m):
		m.found = finding{"is unreachable since " + m.missingSince() + "; the roll-out goes on without it",
			ReasonLeftOut}
	case m.roles.OnlyWorker() && m.found.reason == ReasonPoolPaused:
		m.found.reason = ReasonLeftOut
	case m.roles.Server() && !m.NodeLostSince.IsZero():
		m.found.message += msgNodeLost + stamp(m.NodeLostSince)
		if r.hasMissed(m, m.NodeLostSince) {
			m.found.message += msgNodeLostFor
			m.isStranded = true
		}
	}
}
