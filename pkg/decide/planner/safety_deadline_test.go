package planner

import (
	"slices"
	"testing"
	"time"
)

// A deadline does not pass while the node cannot be seen.
func TestDecide_DeadlinesStandStillWithoutAConnection(t *testing.T) {
	for name, unknown := range map[string]bool{"the connection is there": false, "the connection is down": true} {
		t.Run(name, func(t *testing.T) {
			world := func(lost string) *world {
				w := servers(t, map[string]string{"w1": "worker", "w2": "worker"})
				w.edit(restartAll)
				w.roll(t, "s1", "s2", "s3")
				w.off(w.machines[lost])
				w.machines[lost].m.NodeUnknown = unknown
				w.run(t)
				w.now = w.now.Add(lostAfter)
				return w
			}
			w := world("w1")
			if d := Decide(w.snapshot(t)); slices.Contains(deliveries(d), "w2") == unknown {
				t.Errorf("plans go to %v; wait %+v", deliveries(d), d.Wait)
			}
			w = world("s1")
			if d := Decide(w.snapshot(t)); marks(d, "s1").InitNode != unknown {
				t.Errorf("the init node is replaced: %v", !unknown)
			}
		})
	}
}

// A worker that was dead before its plan came holds its place for a short while. A worker that died later holds it
// longer, because the plan may do the same to the next one.
func TestDecide_AWorkerThatDiedBeforeItsPlanCame(t *testing.T) {
	for name, tc := range map[string]struct {
		lost  time.Duration // after the plan was delivered
		agent func(h *host)
		want  time.Duration // until the rollout goes on, 0: it does not within lostAfter
	}{
		"before":                      {-time.Minute, func(*host) {}, deadAfter},
		"at that time":                {heartbeat, func(*host) {}, deadAfter + heartbeat},
		"later":                       {heartbeat + time.Second, func(*host) {}, lostAfter + heartbeat + time.Second},
		"before, as far as one knows": {-time.Minute, (*host).failPlan, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, map[string]string{"s": "etcd,control-plane", "w1": "worker", "w2": "worker"})
			w.edit(restartAll)
			w.roll(t, "s")
			h := w.machines["w1"]
			h.m.NodeLostSince = h.delivered.Add(tc.lost)
			tc.agent(h)
			goesOn := func(after time.Duration) bool {
				w.now = h.delivered.Add(after)
				return slices.Contains(deliveries(Decide(w.snapshot(t))), "w2")
			}
			if tc.want == 0 {
				if goesOn(2 * lostAfter) {
					t.Error("an agent that has reported is not silent")
				}
				return
			}
			if goesOn(tc.want-time.Second) || !goesOn(tc.want) {
				t.Errorf("the roll-out does not go on after %s", tc.want)
			}
		})
	}
}

// marks are those of a machine after a decision that changes them, or else those of an init node.
func marks(d Decision, machine string) Marks {
	for _, e := range d.Effects {
		if e, ok := e.(MarkMachine); ok && e.Machine == machine {
			return e.Marks
		}
	}
	return Marks{InitNode: true}
}
