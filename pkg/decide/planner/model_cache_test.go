package planner

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// caches are a manager's view of a world: Machines, plan Secrets and the control plane's spec. Each shows some earlier
// time, and never goes back.
type caches struct {
	machines map[string]Machine
	secrets  map[string]host
	spec     ControlPlane
	cluster  Cluster
	// unseen are the manager's own writes that no cache shows yet. While there is one, nothing is decided.
	unseen map[string]bool
}

// newCaches are caches that show everything.
func newCaches(w *world) *caches {
	c := &caches{machines: map[string]Machine{}, secrets: map[string]host{}, spec: w.cp, cluster: *w.cluster,
		unseen: map[string]bool{}}
	for name := range w.machines {
		c.show(w, name)
	}
	return c
}

func (c *caches) show(w *world, name string) {
	c.showMachine(w, name)
	c.showSecret(w, name)
}

func (c *caches) showMachine(w *world, name string) {
	delete(c.unseen, "Machine "+name)
	if h := w.machines[name]; h != nil {
		c.machines[name] = h.m
		return
	}
	delete(c.machines, name)
}

func (c *caches) showSecret(w *world, name string) {
	delete(c.unseen, "Secret "+name)
	if h := w.machines[name]; h != nil {
		c.secrets[name] = *h
		return
	}
	delete(c.secrets, name)
}

// catchUp lets some of the events arrive, in any order.
func (c *caches) catchUp(rt *rapid.T, w *world) {
	names := slices.Sorted(maps.Keys(w.machines))
	for _, name := range slices.Sorted(maps.Keys(c.machines)) {
		if w.machines[name] == nil {
			names = append(names, name)
		}
	}
	for _, name := range names {
		events := rapid.IntRange(0, 3).Draw(rt, "events of "+name)
		if events&1 != 0 {
			c.showMachine(w, name)
		}
		if events&2 != 0 {
			c.showSecret(w, name)
		}
	}
	if rapid.Bool().Draw(rt, "events of the cluster") {
		delete(c.unseen, "Cluster")
		c.spec, c.cluster = w.cp, *w.cluster
	}
}

// see is the world as the caches show it. The manager always sees its own writes to the status of the control plane.
func (c *caches) see(w *world) *world {
	seen := *w
	status := w.cp.Status
	cluster := c.cluster
	seen.cp, seen.cluster, seen.machines = c.spec, &cluster, map[string]*host{}
	seen.cp.Status = status
	for name, m := range c.machines {
		h := c.secrets[name] // none: the machine is not registered
		h.m = m
		seen.machines[name] = &h
	}
	return &seen
}

// stale reports that a write to an object of a machine meets a conflict, or that the object is gone.
func (c *caches) stale(w *world, e Effect) bool {
	name := machineOf(e)
	h := w.machines[name]
	switch e.(type) {
	case DeliverPlan, RequestDrain, RequestUncordon, WithdrawInitLabel, PublishJoinURL:
		return h == nil || !sameSecret(h, new(c.secrets[name]))
	case MarkMachine, SetMachineCondition, ForceRemoveMachine: // patches, or tried again
		return h == nil
	case PauseCluster, ResumeCluster, ResetClusterInitialized:
		return *w.cluster != c.cluster
	}
	return false
}

func sameSecret(a, b *host) bool {
	return a.registered == b.registered && a.probesSeen == b.probesSeen && a.joinURL == b.joinURL &&
		a.initLabel == b.initLabel &&
		a.delivered.Equal(b.delivered) && a.drain == b.drain && maps.EqualFunc(a.data, b.data, func(x, y []byte) bool {
		return string(x) == string(y)
	})
}

// machineOf is the machine of an effect, empty when it has none.
func machineOf(e Effect) string {
	switch e := e.(type) {
	case MarkMachine:
		return e.Machine
	case DeliverPlan:
		return e.Machine
	case RequestDrain:
		return e.Machine
	case RequestUncordon:
		return e.Machine
	case WithdrawInitLabel:
		return e.Machine
	case PublishJoinURL:
		return e.Machine
	case SetMachineCondition:
		return e.Machine
	case ForceRemoveMachine:
		return e.Machine
	}
	return ""
}

// answer is the result of a write.
type answer int

const (
	written answer = iota
	refused        // nothing is written, and the manager knows
	unsaid         // it is written, and the manager does not know
)

// carryOut writes a decision as the controller does (controllers/planner, act.go) when some writes fail. It returns the
// effects whose writes the manager knows to have succeeded.
func (w *world) carryOut(d Decision, write func(Effect) answer) []Effect {
	var known []Effect
	blocked, twoInits := map[string]bool{}, false
	for _, e := range d.Effects {
		mark, marks := e.(MarkMachine)
		_, withdraws := e.(WithdrawInitLabel)
		deliver, delivers := e.(DeliverPlan)
		h := w.machines[machineOf(e)]
		was := h != nil && h.m.Marks.InitNode
		if marks && twoInits && mark.Marks.InitNode && !was {
			blocked[mark.Machine] = true
			continue
		}
		if delivers && blocked[deliver.Machine] {
			continue
		}
		got := write(e)
		if got != refused {
			w.applyOne(e)
		}
		if got == written {
			known = append(known, e)
			continue
		}
		if marks {
			blocked[mark.Machine] = true
		}
		twoInits = twoInits || withdraws || marks && was && !mark.Marks.InitNode
	}
	return known
}

// stalePass is a pass of a manager whose caches lag. check checks the decision in the world that the manager saw.
// around runs around the writes to the real world.
func (w *world) stalePass(rt *rapid.T, c *caches, check func(seen *world, s Snapshot, d Decision),
	around func(d Decision, write func())) {
	c.catchUp(rt, w)
	seen := c.see(w)
	s := seen.snapshot(rt)
	if len(c.unseen) > 0 {
		s.Behind = slices.Sorted(maps.Keys(c.unseen))
		if d := Decide(s); len(d.Effects) > 0 || d.Ticket != nil ||
			fmt.Sprintf("%+v", d.Status) != fmt.Sprintf("%+v", w.cp.Status) {
			rt.Fatalf("something is decided while our own writes are not seen: %+v", d)
		}
		return
	}
	d := Decide(s)
	check(seen, s, d)
	// The control plane was edited since: a write to its status is a conflict.
	old := c.spec.Generation != w.cp.Generation
	if d.Ticket != nil {
		if old || rapid.IntRange(0, 9).Draw(rt, "ticket is refused") == 0 {
			return
		}
		w.cp.Status = d.Status // one write
		w.cp.Status.Ticket = d.Ticket
	}
	around(d, func() {
		for _, e := range w.carryOut(d, func(e Effect) answer { return w.answerTo(rt, c, e) }) {
			c.wrote(e)
		}
	})
	if d.Ticket == nil && !old {
		w.cp.Status = d.Status
		w.cp.Status.Ticket = s.ControlPlane.Status.Ticket
	}
}

// answerTo draws the result of a write.
func (w *world) answerTo(rt *rapid.T, c *caches, e Effect) answer {
	if c.stale(w, e) {
		return refused
	}
	switch rapid.IntRange(0, 9).Draw(rt, "answer") {
	case 0:
		return refused
	case 1:
		return unsaid
	}
	return written
}

// wrote remembers a write until a cache shows it.
func (c *caches) wrote(e Effect) {
	switch e.(type) {
	case MarkMachine, SetMachineCondition, ForceRemoveMachine:
		c.unseen["Machine "+machineOf(e)] = true
	case DeliverPlan, RequestDrain, RequestUncordon, WithdrawInitLabel, PublishJoinURL:
		c.unseen["Secret "+machineOf(e)] = true
	case PauseCluster, ResumeCluster, ResetClusterInitialized:
		c.unseen["Cluster"] = true
	}
}

// restarting are the etcd members that got a plan to restart and have not reported since.
func (w *world) restarting() map[string]bool {
	out := map[string]bool{}
	for name, h := range w.machines {
		state := h.state()
		if h.registered && !h.m.Deleting && h.member() && state.PlanExists && !state.InSync && !state.Failed &&
			state.AppliedPlan != nil &&
			!restartFree(&state, *state.AppliedPlan) {
			out[name] = true
		}
	}
	return out
}

// beginsOne checks, for views of any age, that no working etcd member gets a restart while another one restarts.
// Members that an operator has left out do not count.
func (w *world) beginsOne(rt *rapid.T, d Decision, carryOut func()) {
	before := w.restarting()
	working := map[string]bool{}
	for name, h := range w.machines {
		working[name] = h.works()
	}
	carryOut()
	for name := range w.restarting() {
		for other := range before {
			if other != name && !before[name] && working[name] && !w.machines[other].m.Skip {
				rt.Fatalf("from an old view, %s is told to restart while etcd member %s is at it; ticket %+v", name,
					other, d.Ticket)
			}
		}
	}
}
